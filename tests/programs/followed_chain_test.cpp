// Chains of plans as far as a plan of ours can follow a schedule of them: what is kept whatever is chosen takes nothing, and a forward what running it again does.
#include "followed_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "drawn_plan.h"
#include "meshwright/plan_chain.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

class FollowedChain : public testing::TestWithParam<const char*> {
 protected:
  FollowedChain()
      : model_(analyze_model(read_model(GetParam()), *bench().tools.ops).value()),
        pins_(RecomputePins::make(model_, {}).value()),
        input_{{model_, training_, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh_, {}},
        problem_(build_problem(input_).value()),
        again_(build_problem(with_all()).value()),
        chains_(FollowedChains::make(wish_).value()) {}

  [[nodiscard]] ProblemInput with_all() const {
    ProblemInput given = input_;
    given.recomputed = recomputable_blocks(model_);
    return given;
  }

  static std::int64_t peak_of_everything(const Chain& chain) { return replay(chain, keep_everything(chain)).value().peak_bytes; }

  const ModelAnalysis model_;
  const Mesh mesh_ = plain_mesh({2, 2});
  const CostProfile profile_ = plain_profile();
  const TrainingSettings training_;
  const RecomputePins pins_;
  const ProblemInput input_;
  const Problem problem_, again_;
  const RecomputeWish wish_{input_, problem_, {}, pins_};
  const FollowedChains chains_;
};

TEST_P(FollowedChain, HasNoStageOfTwoBlocks) {
  const std::vector<ModelStage>& stages = chains_.model().stages;
  NodeId next = 0;
  std::set<std::size_t> with_blocks;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const NodeId id : stages[s].nodes) {
      EXPECT_EQ(id, next++) << "each node once, in order";
      EXPECT_EQ(chains_.model().stage_of[id], s);
    }
  }
  EXPECT_EQ(next, model_.graph->nodes.size());
  for (const RecomputableBlock& block : blocks_of(model_)) {
    std::set<std::size_t> of_block;
    for (const NodeId id : block.nodes) {
      if (again_.recomputation.runs(id)) of_block.insert(chains_.model().stage_of[id]);
    }
    for (const std::size_t stage : of_block) EXPECT_TRUE(with_blocks.insert(stage).second) << block.name;
  }
}

TEST_P(FollowedChain, TakesForAForwardWhatRunningItAgainDoes) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> choice = draw_choice(problem_, seed).value();
    const Chain chain = chains_.of(choice), whole = chain_of(input_, problem_, chains_.model(), choice);
    ASSERT_TRUE(validate(chain).ok()) << validate(chain).error().message;
    EXPECT_EQ(static_cast<std::int64_t>(ticks_without_recomputing(chain)), static_cast<std::int64_t>(ticks_without_recomputing(whole)));
    TickSum forwards = 0;
    for (std::size_t s = 0; s < chain.stages.size(); ++s) {
      if (std::ranges::any_of(chains_.model().stages[s].nodes, [&](NodeId id) { return again_.recomputation.runs(id); })) forwards += forward_run_ticks(chain.stages[s]);
    }
    const double more = to_seconds(evaluate(again_.space, choice).cost - evaluate(problem_.space, choice).cost);
    EXPECT_NEAR(to_seconds(forwards), more, 0.01 * more);
  }
}

TEST_P(FollowedChain, HoldsNothingForWhatIsKeptAnyway) {
  const std::vector<std::uint32_t> choice = draw_choice(problem_, 1).value();
  const Chain chain = chains_.of(choice), whole = chain_of(input_, problem_, chains_.model(), choice);
  int free = 0;
  std::int64_t saved = 0, all_saved = 0;
  for (std::size_t s = 0; s + 1 < chain.stages.size(); ++s) {
    saved += chain.stages[s].saved_bytes;
    all_saved += whole.stages[s].saved_bytes;
    const std::vector<ValueId>& results = chains_.model().stages[s].results;
    const bool can_go = std::ranges::any_of(results, [&](ValueId id) { return again_.recomputation.makes(id); });
    if (can_go) continue;
    EXPECT_EQ(chain.stages[s + 1].input_bytes, 0) << s;
    free += chain.stages[s + 1].input_bytes == 0 ? 1 : 0;
  }
  EXPECT_GE(free, 2);
  EXPECT_LE(saved, all_saved);
}

// What is kept anyway is held all the same while others run, so a chain holds most where its plan does. Were it left out, a solver would make room for a stage's
// overhead at a time when little is held.
TEST_P(FollowedChain, HoldsMostWhereThePlanDoes) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> choice = draw_choice(problem_, seed).value();
    const std::int64_t most = peak_of_everything(chain_of(input_, problem_, chains_.model(), choice));
    for (const FollowedChains& chains : {chains_, chains_.keeping_values().value()}) {
      const Chain chain = chains.of(choice);
      ASSERT_TRUE(validate(chain).ok()) << validate(chain).error().message;
      EXPECT_EQ(peak_of_everything(chain), most);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FollowedChain, testing::Values("gpt2_tiny", "llama_tiny", "bert_tiny", "vit_tiny", "clip_tiny", "t5_tiny", "vgg_tiny"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::test
