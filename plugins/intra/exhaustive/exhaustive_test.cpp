#include "exhaustive.h"

#include <gtest/gtest.h>

#include "pair_space.h"

namespace meshwright {
namespace {

TEST(Exhaustive, FindsTheCheapestThatFitsEachBudget) {
  const std::vector<std::int64_t> budgets = {14, 15, 30, 100, kNoBudget};
  const auto answers = Exhaustive().solve(pair_space(), budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ((*answers)[0].status, SolveStatus::infeasible);
  EXPECT_EQ((*answers)[0].least_bytes, 15);
  EXPECT_EQ((*answers)[0].binding, "needs at least 15 bytes per device at time 1; the budget is 14 bytes");
  EXPECT_EQ((*answers)[1].choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ((*answers)[2].choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ((*answers)[3].choice, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ((*answers)[4].choice, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Exhaustive, SaysThatNothingIsAllowed) {
  StrategySpace space = pair_space();
  space.tables[0].costs.assign(4, kForbidden);
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const auto answers = Exhaustive().solve(space, budgets, {});
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ(answers->front().binding, kNothingAllowed);
  EXPECT_EQ(answers->front().least_bytes, 0);
}

TEST(Exhaustive, RefusesMoreThanItsWorkLimit) {
  SearchLimits limits;
  limits.work_limit = 3;
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const auto answers = Exhaustive().solve(pair_space(), budgets, limits);
  ASSERT_FALSE(answers.ok());
  EXPECT_EQ(answers.error().message,
            "4 combinations are more than the work limit of 3; choose a solver that does not try them all");
}

}  // namespace
}  // namespace meshwright
