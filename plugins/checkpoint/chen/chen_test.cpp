#include "chen.h"

#include <gtest/gtest.h>

#include "chains.h"

namespace meshwright {
namespace {

CheckpointAnswer solve(const Chain& chain, std::int64_t budget) {
  const std::vector<std::int64_t> budgets = {budget};
  const auto answers = Chen().solve(chain, budgets);
  EXPECT_TRUE(answers.ok()) << answers.error().message;
  return answers.ok() ? answers->front() : CheckpointAnswer{};
}

// n/k values between segments and n/(n/k) of one that runs again: least where both are √n, so four times the stages
// need twice the memory.
TEST(Chen, NeedsTheRootOfEqualStages) {
  for (const std::size_t root : {4, 8, 16, 32}) {
    const std::int64_t least = solve(equal_chain(root * root), 0).least_bytes;
    EXPECT_GE(least, static_cast<std::int64_t>(2 * root));
    EXPECT_LE(least, static_cast<std::int64_t>(2 * root + 2));
    const CheckpointAnswer answer = solve(equal_chain(root * root), least);
    EXPECT_EQ(answer.status, SolveStatus::heuristic);
    EXPECT_EQ(answer.peak_bytes, least);
    // Less than one more forward pass: the last segment does not run again.
    const auto again = static_cast<std::int64_t>(answer.ticks - ticks_without_recomputing(equal_chain(root * root)));
    EXPECT_LT(again, static_cast<std::int64_t>(10 * root * root));
  }
}

TEST(Chen, KeepsEverythingWhereItFits) {
  const CheckpointAnswer answer = solve(equal_chain(9), kNoBudget);
  EXPECT_EQ(answer.status, SolveStatus::optimal);
  EXPECT_EQ(answer.schedule, keep_everything(equal_chain(9)));
}

TEST(Chen, CutsWhereStagesSaveMuch) {
  Chain chain = equal_chain(6);
  chain.stages[2].saved_bytes = 20;
  const std::int64_t least = solve(chain, 0).least_bytes;
  EXPECT_EQ(solve(chain, least - 1).status, SolveStatus::infeasible);
  EXPECT_LT(solve(chain, least).peak_bytes, replay(chain, keep_everything(chain)).value().peak_bytes);
}

}  // namespace
}  // namespace meshwright
