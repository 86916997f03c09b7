// The program of one linear layer on four ranks, whose batch is cut.
#pragma once

#include "draft.h"
#include "program_bench.h"

namespace meshwright::test {

inline Result<Program> linear_program(ZeroStage stage, const TrainingSettings& training, const std::vector<const ProgramPass*>& passes) {
  Draft draft;
  const ValueId x = draft.input("x", DType::float32, {8, 16});
  const ValueId y = draft.op("aten.linear", {{"input", x}, {"weight", draft.parameter("weight", {32, 16})}}, {}, {8, 32});
  const Graph graph = draft.finish("linear", draft.op("aten.mean", {{"self", y}}, {}, {}));
  const ModelAnalysis model = analyze_model(graph, *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({4});
  const CostProfile profile = plain_profile();
  StrategyFilter filter;
  filter.batch_axes = 1;
  filter.zero = stage;
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, filter};
  return make_program(draw_plan(input, build_problem(input).value(), 0).value(), input, passes);
}

inline Program linear_program(ZeroStage stage, std::int64_t microbatches) {
  const host::ProgramTools& tools = bench().tools;
  TrainingSettings training;
  training.microbatches = microbatches;
  return linear_program(stage, training, {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()}).value();
}

}  // namespace meshwright::test
