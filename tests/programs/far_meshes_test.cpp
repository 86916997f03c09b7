// Meshes that are far from the fastest one in fewer microbatches are not looked at, and nothing is lost by that.
#include <gtest/gtest.h>

#include "joint_line.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

// All takes the time of its bytes and operations alone, so that a quarter of a batch takes about a quarter.
CostProfile even_profile() {
  CostProfile profile = plain_profile();
  profile.device.launch_seconds = 0;
  return profile;
}

// Two servers of four.
Cluster far_servers() {
  Cluster cluster;
  cluster.name = "servers";
  cluster.devices_per_node = 4;
  cluster.nodes = 2;
  cluster.levels = {{"server", 4, 20e9, 0}, {"all", 8, 0.2e9, 0}};
  return cluster;
}

class FarMeshesOf : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<JointLine> line(std::int64_t microbatches, const JointLines& others) const {
    std::unique_ptr<JointLine> made = JointLine::make(request_, model_, microbatches).value();
    const Status status = made->add_devices(cluster_, others);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return made;
  }

  const host::ProgramTools& tools_ = bench().tools;
  const ModelAnalysis analysis_ = analyze_model(read_model(GetParam()), *tools_.ops).value();
  const TrainingSettings training_;
  const CostProfile profile_ = even_profile();
  const Cluster cluster_ = far_servers();
  const std::shared_ptr<IntraSolver> solver_ = bench().host.create<IntraSolver>("intra", "elimination").value();
  const std::vector<Pin> pins_;
  const JointStagesRequest request_{
      .context = {analysis_, training_, *tools_.ops, profile_, *tools_.conversions},
      .cluster = cluster_,
      .solver = *solver_,
      .search = bench().host.config().search,
      .pins = pins_,
      .mesh = "",
      .stages = {1},
      .microbatches = {2, 4},
      .unlike_stages = {},
      .schedules = {},
      .schedule = nullptr,
      .lower = [this](const Plan& plan, const PlanningContext& context) { return host::make_program(plan, context, tools_); }};
  const JointModel model_ = JointModel::make(request_).value();
};

TEST_P(FarMeshesOf, AreNotAmongTheFastest) {
  JointLines others;
  others.emplace(2, line(2, {}));
  const std::int64_t devices = cluster_.devices();
  const std::unique_ptr<JointLine> near = line(4, others), all = line(4, {});
  EXPECT_FALSE(all->has_far_meshes());
  ASSERT_TRUE(near->has_far_meshes());
  EXPECT_EQ(near->fastest_seconds(devices), all->fastest_seconds(devices));

  const std::vector<LeastComputing>&below = near->least(devices), &least = all->least(devices);
  ASSERT_EQ(below.size(), least.size());
  for (std::size_t node = 0; node < least.size(); ++node) {
    EXPECT_LE(below[node].forward_seconds, least[node].forward_seconds * (1 + 1e-9)) << node;
    EXPECT_LE(below[node].whole_seconds, least[node].whole_seconds * (1 + 1e-9)) << node;
  }

  EXPECT_TRUE(near->add_far_meshes(devices).value());
  EXPECT_FALSE(near->has_far_meshes());
  EXPECT_FALSE(near->add_far_meshes(devices).value());
  EXPECT_EQ(near->fastest_seconds(devices), all->fastest_seconds(devices));
  EXPECT_EQ(near->least(devices), least);
}

INSTANTIATE_TEST_SUITE_P(, FarMeshesOf, testing::Values("bert_tiny", "mixtral_tiny", "qwen_moe_tiny", "t5_tiny"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::test
