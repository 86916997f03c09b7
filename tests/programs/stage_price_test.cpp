// What crosses between the stages of a pipeline has a price in the search of each stage: until a device has received its part.
#include <gtest/gtest.h>

#include "halves.h"
#include "meshwright/call_price.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

constexpr double kLatency = 1e-3, kSecondsPerByte = 1e-6;

class StagePrice : public testing::Test {
 protected:
  // The strategies of what a stage of two receives (a fork), or of what it sends (an output).
  std::vector<Strategy> strategies_of(std::uint32_t stage, VariableKind kind, bool far, double seconds_per_byte = kSecondsPerByte) {
    model_ = analyze_model(cut_.graphs[stage], *bench().tools.ops).value();
    CostProfile profile = plain_profile();
    profile.stage_latency_seconds = seconds_per_byte > 0 ? kLatency : 0;
    profile.stage_seconds_per_byte = seconds_per_byte;
    StagePart part = cut_.part_of(stage);
    if (!far) part.beside = {1 - stage};
    const ProblemInput input{{model_, TrainingSettings{}, *bench().tools.ops, profile, *bench().tools.conversions, &part}, mesh_, {}};
    const Problem problem = build_problem(input).value();
    for (const Variable& variable : problem.variables) {
      if (variable.kind == kind && variable.value != kNoId && model_.graph->values[variable.value].name == crossing().value) {
        value_ = variable.value;
        return variable.set->strategies;
      }
    }
    ADD_FAILURE() << "the stage has no variable for '" << crossing().value << "'";
    return {};
  }

  [[nodiscard]] const StageBoundary& crossing() const { return cut_.boundaries.front(); }

  [[nodiscard]] double wait(const Layout& layout) const {
    const TensorType& type = model_.graph->type(value_);
    return kLatency + kSecondsPerByte * static_cast<double>(local_bytes(layout, model_.atoms->values[value_], mesh_, size_bytes(type.dtype)));
  }

  const CutModel cut_ = half(read_model("gpt2_tiny"));
  const Mesh mesh_ = plain_mesh({4});
  ModelAnalysis model_;
  ValueId value_ = kNoId;
};

TEST_F(StagePrice, AStageWaitsForItsPartOfWhatItReceives) {
  const std::vector<Strategy> far = strategies_of(1, VariableKind::fork, true), near = strategies_of(1, VariableKind::fork, false);
  ASSERT_EQ(far.size(), near.size());
  std::set<double> waits;
  for (std::size_t i = 0; i < far.size(); ++i) {
    const double waited = wait(far[i].result(0).value);
    waits.insert(waited);
    EXPECT_DOUBLE_EQ(far[i].forward_seconds, waited) << i;
    EXPECT_DOUBLE_EQ(near[i].forward_seconds, 0) << i;
    EXPECT_DOUBLE_EQ(far[i].backward_seconds, near[i].backward_seconds) << i;
  }
  EXPECT_EQ(waits.size(), 2U);  // whole, or a quarter of it
}

TEST_F(StagePrice, AStageWaitsForTheGradientOfWhatItSends) {
  const std::vector<Strategy> far = strategies_of(0, VariableKind::output, true), near = strategies_of(0, VariableKind::output, false);
  ASSERT_EQ(far.size(), near.size());
  for (std::size_t i = 0; i < far.size(); ++i) {
    EXPECT_DOUBLE_EQ(far[i].backward_seconds, wait(far[i].operand(0).gradient)) << i;
    EXPECT_DOUBLE_EQ(far[i].forward_seconds, 0) << i;
    EXPECT_DOUBLE_EQ(near[i].backward_seconds, 0) << i;
  }
}

}  // namespace
}  // namespace meshwright::test
