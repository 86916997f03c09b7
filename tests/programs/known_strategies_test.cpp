// A problem that is built with the strategies of others before it is the one that is built alone, to the tick and the byte.
#include <gtest/gtest.h>

#include "halves.h"
#include "meshwright/known_strategies.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

class KnownStrategiesOf : public testing::TestWithParam<const char*> {
 protected:
  // With what runs again and without.
  void compare(const Graph& graph, const StagePart* part, const char* order) {
    const ModelAnalysis model = analyze_model(graph, *bench().tools.ops).value();
    TrainingSettings training;
    training.microbatches = 2;
    training.order = order;
    CostProfile profile = plain_profile();
    profile.parameter_bytes = parameter_bytes(graph, training);
    if (part != nullptr) profile.stage_latency_seconds = 1e-3;
    const std::vector<std::string> blocks = recomputable_blocks(model), converted = recomputed_names(model, std::vector<bool>(graph.nodes.size(), false), convertible_operands(model));
    for (const std::vector<std::string>& recomputed : {std::vector<std::string>(), blocks, converted}) {
      ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions, part}, mesh_, {}};
      input.recomputed = recomputed;
      expect_the_same(build_problem(input, known_).value(), build_problem(input).value());
    }
  }

  static void expect_the_same(const Problem& with, const Problem& alone) {
    ASSERT_EQ(with.variables.size(), alone.variables.size());
    EXPECT_EQ(with.strategies, alone.strategies);
    for (std::size_t i = 0; i < with.variables.size(); ++i) {
      EXPECT_EQ(with.space.nodes[i].costs, alone.space.nodes[i].costs) << with.variables[i].name;
      for (std::size_t s = 0; s < with.variables[i].set->strategies.size(); ++s) {
        const Strategy &one = with.variables[i].set->strategies[s], &other = alone.variables[i].set->strategies[s];
        EXPECT_EQ(one.forward_host_seconds + one.backward_host_seconds + one.again_host_seconds, other.forward_host_seconds + other.backward_host_seconds + other.again_host_seconds);
        EXPECT_EQ(one.again_seconds, other.again_seconds) << with.variables[i].name;
        if (one.node() != nullptr) {
          EXPECT_TRUE(one.node()->call == other.node()->call) << with.variables[i].name;
        }
      }
    }
    ASSERT_EQ(with.space.edges.size(), alone.space.edges.size());
    for (std::size_t e = 0; e < with.space.edges.size(); ++e) {
      EXPECT_EQ(with.space.edges[e].table, alone.space.edges[e].table);
      EXPECT_EQ(with.space.tables[with.space.edges[e].table].costs, alone.space.tables[alone.space.edges[e].table].costs) << with.edges[e].value;
    }
    ASSERT_EQ(with.space.memory.size(), alone.space.memory.size());
    for (std::size_t t = 0; t < with.space.memory.size(); ++t) {
      const MemoryTerm &one = with.space.memory[t], &other = alone.space.memory[t];
      EXPECT_TRUE(one.node == other.node && one.begin == other.begin && one.end == other.end && one.bytes == other.bytes);
    }
  }

  const Mesh mesh_ = plain_mesh({2, 2});
  KnownStrategies known_;
};

TEST_P(KnownStrategiesOf, GiveTheSameProblems) {
  const Graph graph = read_model(GetParam());
  const CutModel cut = half(graph);
  compare(graph, nullptr, "");
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    const StagePart part = cut.part_of(stage);
    compare(cut.graphs[stage], &part, stage == 0 ? "F0 F1 B0 B1" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(, KnownStrategiesOf, testing::Values("gpt2_tiny", "bert_tiny", "llama_tiny", "mixtral_tiny", "vit_tiny"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::test
