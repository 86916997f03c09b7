#include "dtr.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chains.h"

namespace meshwright {
namespace {

using enum ChainOperationKind;

std::vector<CheckpointAnswer> solve(const Chain& chain, const std::vector<std::int64_t>& budgets) {
  const auto answers = Dtr().solve(chain, budgets);
  EXPECT_TRUE(answers.ok()) << answers.error().message;
  return answers.ok() ? *answers : std::vector<CheckpointAnswer>(budgets.size());
}

TEST(Dtr, LetsGoWhatIsCheapForItsSize) {
  // Stages 0 and 1 save as much, and 0 takes a hundred times as long: 1 goes, though 0 was read before it.
  Chain chain = equal_chain(4, 6);
  chain.stages[0].forward_ticks = 1000;
  const auto answer = solve(chain, {24}).front();
  ASSERT_EQ(answer.status, SolveStatus::heuristic);
  const auto first = std::find_if(answer.schedule.begin(), answer.schedule.end(),
                                  [](const ChainOperation& operation) { return operation.kind == drop_saved; });
  ASSERT_NE(first, answer.schedule.end());
  EXPECT_EQ(first->stage, 1U);
}

TEST(Dtr, KeepsEverythingWhereItFits) {
  const auto answer = solve(equal_chain(9), {kNoBudget}).front();
  EXPECT_EQ(answer.status, SolveStatus::optimal);
  EXPECT_EQ(answer.schedule, keep_everything(equal_chain(9)));
}

TEST(Dtr, MeetsTheBudgetThatItAsksFor) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Chain chain = random_chain(seed, 1 + seed % 20, Gradients::any);
    const auto refused = solve(chain, {0}).front();
    if (refused.status != SolveStatus::infeasible) continue;
    const auto answers = solve(chain, {refused.least_bytes - 1, refused.least_bytes});
    EXPECT_EQ(answers[0].status, SolveStatus::infeasible) << seed;
    EXPECT_NE(answers[1].status, SolveStatus::infeasible) << seed;
  }
}

TEST(Dtr, IsNoSlowerWithMoreMemory) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Chain chain = random_chain(seed, 12, Gradients::any);
    std::vector<std::int64_t> budgets;
    for (std::int64_t budget = 0; budget < 80; ++budget) budgets.push_back(budget);
    const auto answers = solve(chain, budgets);
    for (std::size_t i = 1; i < answers.size(); ++i) {
      if (answers[i - 1].status == SolveStatus::infeasible) continue;
      EXPECT_TRUE(answers[i].ticks <= answers[i - 1].ticks) << seed;
    }
  }
}

}  // namespace
}  // namespace meshwright
