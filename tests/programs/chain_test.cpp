// Models as chains of stages: what crosses their borders, and what they take and hold in plans.
#include <gtest/gtest.h>

#include <ostream>

#include "drawn_plan.h"
#include "meshwright/plan_chain.h"
#include "meshwright/recompute.h"
#include "meshwright/saved.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

// `branches`: residual ones, and norms behind their sums.
struct Linear {
  const char* model;
  std::size_t branches, fewest, most;
};
void PrintTo(const Linear& linear, std::ostream* out) { *out << linear.model; }

ModelAnalysis analysis_of(const char* model) { return analyze_model(read_model(model), *bench().tools.ops).value(); }

class ModelChains : public testing::TestWithParam<Linear> {};

TEST_P(ModelChains, AreCrossedByTheirValueAndCommonNodesAlone) {
  const ModelAnalysis model = analysis_of(GetParam().model);
  const ModelChain chain = linearize(model, *bench().tools.ops);
  const Graph& graph = *model.graph;
  NodeId next = 0;
  for (std::size_t s = 0; s < chain.stages.size(); ++s) {
    for (const NodeId id : chain.stages[s].nodes) {
      EXPECT_EQ(id, next++) << "each node once, in order";
      EXPECT_EQ(chain.stage_of[id], s);
    }
    EXPECT_EQ(chain.stages[s].results.empty(), s + 1 == chain.stages.size());
  }
  EXPECT_EQ(next, graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (const Operand& operand : graph.nodes[id].operands) {
      const NodeId producer = graph.values[operand.value].producer;
      if (producer == kNoId || chain.is_common[producer] || chain.stage_of[producer] == chain.stage_of[id]) continue;
      EXPECT_EQ(chain.stage_of[producer] + 1, chain.stage_of[id]) << graph.nodes[id].name;
      const std::vector<ValueId>& values = chain.stages[chain.stage_of[producer]].results;
      EXPECT_NE(std::ranges::find(values, operand.value), values.end()) << graph.nodes[id].name;
    }
  }
  EXPECT_GE(chain.stages.size(), GetParam().branches + GetParam().fewest);
  EXPECT_LE(chain.stages.size(), GetParam().branches + GetParam().most);
}

// Beside the branches embeddings, the last norm, the head and the loss have stages. A cross attention, or a bias that all
// layers share, crosses everything: T5's layers are one stage.
INSTANTIATE_TEST_SUITE_P(, ModelChains,
                         testing::Values(Linear{"gpt2_tiny", 4, 2, 6}, Linear{"gpt2_deep_tiny", 8, 2, 6}, Linear{"llama_tiny", 4, 2, 8}, Linear{"vit_tiny", 4, 2, 6},
                                         Linear{"bert_tiny", 8, 2, 8}, Linear{"t5_tiny", 0, 1, 12}, Linear{"resnet_tiny", 4, 2, 40}, Linear{"vgg_tiny", 0, 5, 40}),
                         [](const auto& info) { return std::string(info.param.model); });

class PlanChains : public testing::TestWithParam<const char*> {};

TEST_P(PlanChains, TakeWhatThePlanTakes) {
  const ModelAnalysis model = analysis_of(GetParam());
  const ModelChain linear = linearize(model, *bench().tools.ops);
  const Mesh mesh = plain_mesh({2, 2});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  const Problem problem = build_problem(input).value();
  input.recomputed = recomputable_blocks(model);
  const Problem again = build_problem(input).value();
  input.recomputed = {};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> choice = draw_choice(problem, seed).value();
    const Chain chain = chain_of(input, problem, linear, choice);
    ASSERT_TRUE(validate(chain).ok()) << validate(chain).error().message;
    double updates = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      if (const ParameterStrategy* parameter = problem.variables[i].set->strategies[choice[i]].parameter()) updates += parameter->update_seconds;
    }
    const Evaluation kept = evaluate(problem.space, choice);
    EXPECT_NEAR(to_seconds(kept.cost), to_seconds(ticks_without_recomputing(chain)) + updates, 1e-6 * to_seconds(kept.cost));
    // Blocks that run again take no more than all forwards do.
    TickSum forwards = 0;
    for (const ChainStage& stage : chain.stages) forwards += forward_run_ticks(stage);
    const TickSum more = evaluate(again.space, choice).cost - kept.cost;
    EXPECT_GT(more, 0);
    EXPECT_LE(more, forwards);
  }
}

// On one device there is one layout: what is kept is what the terms of memory know, without the model's inputs and parameters.
TEST_P(PlanChains, HoldWhatThePlanHolds) {
  const ModelAnalysis model = analysis_of(GetParam());
  const ModelChain linear = linearize(model, *bench().tools.ops);
  const Mesh mesh = plain_mesh({1});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  const Problem problem = build_problem(input).value();
  const Chain chain = chain_of(input, problem, linear, draw_choice(problem, 1).value());
  std::int64_t saved = 0, stored = 0;
  for (const ChainStage& stage : chain.stages) saved += stage.saved_bytes;
  for (const SavedStorage& storage : saved_storages(model.backward->training, *bench().tools.ops)) {
    const NodeId maker = model.graph->values[storage.value].producer;
    if (maker != kNoId && !linear.is_common[maker]) stored += storage.bytes;
  }
  // Of a chain the value behind each stage is held, whether a backward takes it or not.
  std::int64_t values = 0;
  for (const ChainStage& stage : chain.stages) values += stage.input_bytes;
  EXPECT_GE(saved, stored);
  EXPECT_LE(saved, stored + values);
}

INSTANTIATE_TEST_SUITE_P(, PlanChains, testing::Values("gpt2_tiny", "llama_tiny", "bert_tiny", "vit_tiny", "t5_tiny", "resnet_tiny"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::test
