// Of stages that are alike only the first one is tried in several parts: the others are made as that one was, and are what they would have been.
#include <gtest/gtest.h>

#include "assembled_stage.h"
#include "cut_model.h"
#include "joint_line.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

constexpr std::uint32_t kBlocks = 5;
constexpr double kRoomForTheFaster = 0.4;  // of what all of a stage gone the faster way holds more

Cluster four_devices() {
  Cluster cluster;
  cluster.name = "four";
  cluster.devices_per_node = 4;
  cluster.nodes = 1;
  cluster.levels = {{"node", 4, 1e9, 1e-6}};
  return cluster;
}

// One block each; the first one has the embedding too, and the last one the head.
CutModel in_blocks(const Graph& graph) {
  std::vector<std::uint32_t> stage_of;
  const std::vector<bool> depends = depends_on_parameters(graph);
  std::uint32_t block = 0;
  for (const Node& node : graph.nodes) {
    const bool begins_next = block + 1 < kBlocks && node.module_path.find("h." + std::to_string(block + 1)) != std::string::npos;
    if (begins_next && depends[node.results.front()]) ++block;
    stage_of.push_back(depends[node.results.front()] ? block : 0);
  }
  return cut_model(graph, stage_of, kBlocks).value();
}

// Blocks of a GPT-2 as stages, each split in two ways: the fastest one, and one that holds less.
class AssembledStages : public testing::Test {
 protected:
  void SetUp() override {
    shorter_ = analyze_model(model_.shorter.graph, *tools_.ops).value();
    std::optional<SplitWays> made = SplitWays::make({context_of(shorter_), model_.shorter.units, search_, pins_, fitted_, lower_}, cluster_, {4}, false).value();
    ASSERT_TRUE(made.has_value());
    ways_.emplace(std::move(*made));
    const auto peak = [&](double part) { return assembled(1, {*ways_, 0, smaller(), part, 0}, kNoBudget).plan.peak_bytes; };
    for (double factor = 1; smaller() == 0 || peak(1) <= peak(0); factor *= 16) {
      ASSERT_LT(factor, 1e9) << "no way holds less";
      ASSERT_TRUE(ways_->add(factor * ways_->usual_price(), 1)) << factor;
    }
    const std::int64_t none = peak(0);
    part_bytes_ = static_cast<double>(peak(1) - none);
    budget_ = none + static_cast<std::int64_t>(kRoomForTheFaster * part_bytes_);
  }

  [[nodiscard]] PlanningContext context_of(const ModelAnalysis& model) const { return {model, training_, *tools_.ops, profile_, *tools_.conversions}; }

  [[nodiscard]] std::size_t smaller() const { return ways_->ways().size() - 1; }
  [[nodiscard]] StageRecipe half_and_half(AssembledParts* known) const { return {*ways_, 0, smaller(), 0.5, part_bytes_, known}; }

  FittedPlan assembled(std::uint32_t stage, const StageRecipe& recipe, std::int64_t budget) {
    const ModelAnalysis model = analyze_model(cut_.graphs[stage], *tools_.ops).value();
    const StagePart part = cut_.part_of(stage);
    PlanningContext context = context_of(model);
    context.part = &part;
    lowered_ = 0;
    const FittedSolver::Lower lower = [&](const Plan& plan) {
      ++lowered_;
      return host::make_program(plan, context, tools_);
    };
    return assemble_stage(context, fitted_solver(*solver_, search_, lower, {}), pins_, shorter_, model_.alike, recipe, budget).value().value();
  }

  // In one try.
  void expect_same(std::uint32_t stage, AssembledParts& known) {
    const FittedPlan again = assembled(stage, half_and_half(&known), budget_);
    EXPECT_EQ(lowered_, 1);
    const FittedPlan searched = assembled(stage, half_and_half(nullptr), budget_);
    EXPECT_GT(lowered_, 1);
    EXPECT_EQ(again.assignment.choice, searched.assignment.choice);
    EXPECT_EQ(again.plan.recomputed, searched.plan.recomputed);
    EXPECT_EQ(again.plan.bucket_bytes, searched.plan.bucket_bytes);
    EXPECT_EQ(again.plan.peak_bytes, searched.plan.peak_bytes);
    EXPECT_EQ(again.plan.step_seconds, searched.plan.step_seconds);
  }

  const host::ProgramTools& tools_ = bench().tools;
  const Graph graph_ = read_model("gpt2_deep_tiny");
  const CutModel cut_ = in_blocks(graph_);
  const ModelAnalysis whole_ = analyze_model(graph_, *tools_.ops).value();
  const TrainingSettings training_;
  const CostProfile profile_ = plain_profile();
  const Config search_ = bench().host.config().search;
  const std::shared_ptr<IntraSolver> solver_ = bench().host.create<IntraSolver>("intra", "elimination").value();
  const Cluster cluster_ = four_devices();
  const std::vector<Pin> pins_;
  const FittedSolver::Lower lower_ = [this](const Plan& plan) { return host::make_program(plan, tools_); };
  const FittedSolver fitted_ = fitted_solver(*solver_, search_, lower_, {});
  const JointStagesRequest request_{.context = context_of(whole_),
                                    .cluster = cluster_,
                                    .solver = *solver_,
                                    .search = search_,
                                    .pins = pins_,
                                    .mesh = "",
                                    .stages = {1},
                                    .microbatches = {1},
                                    .unlike_stages = {},
                                    .schedules = {},
                                    .schedule = nullptr,
                                    .lower = nullptr};
  const JointModel model_ = JointModel::make(request_).value();
  ModelAnalysis shorter_;
  std::optional<SplitWays> ways_;
  double part_bytes_ = 0;
  std::int64_t budget_ = 0;
  int lowered_ = 0;
};

TEST_F(AssembledStages, ThatAreAlikeAreMadeAsTheFirstOfThem) {
  AssembledParts known;
  const FittedPlan first = assembled(1, half_and_half(&known), budget_);
  EXPECT_GT(lowered_, 1);
  EXPECT_LE(first.plan.peak_bytes, budget_);
  ASSERT_EQ(known.size(), 1U);
  expect_same(2, known);
  expect_same(3, known);
  EXPECT_EQ(known.size(), 1U);
}

TEST_F(AssembledStages, AreSearchedForWhereTheyTurnOutToBeSomethingElse) {
  AssembledParts known;
  assembled(1, half_and_half(&known), budget_);
  const AssembledPart right = known.begin()->second;
  for (AssembledPart wrong : {AssembledPart{right.part, right.peak_bytes + 1, right.step_seconds}, AssembledPart{right.part, right.peak_bytes, right.step_seconds * 2}, AssembledPart{1, right.peak_bytes, right.step_seconds}}) {
    known.begin()->second = wrong;
    const FittedPlan plan = assembled(2, half_and_half(&known), budget_);
    EXPECT_GT(lowered_, 2);
    EXPECT_EQ(plan.plan.peak_bytes, right.peak_bytes);
    EXPECT_EQ(known.begin()->second.part, right.part);
    EXPECT_EQ(known.begin()->second.peak_bytes, right.peak_bytes);
    EXPECT_EQ(known.begin()->second.step_seconds, right.step_seconds);
  }
}

}  // namespace
}  // namespace meshwright::test
