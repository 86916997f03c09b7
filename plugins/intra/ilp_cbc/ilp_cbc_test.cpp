#include "ilp_cbc.h"

#include <gtest/gtest.h>

#include "pair_space.h"

namespace meshwright {
namespace {

TEST(IlpCbc, ProvesSmallAnswersAndExplainsWhatDoesNotFit) {
  const std::vector<std::int64_t> budgets = {14, 30, 100};
  const auto answers = IlpCbc(1000).solve(pair_space(), budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ((*answers)[0].binding, "needs at least 15 bytes per device at time 1; the budget is 14 bytes");
  EXPECT_EQ((*answers)[1].status, SolveStatus::optimal);
  EXPECT_EQ((*answers)[1].choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ((*answers)[2].choice, (std::vector<std::uint32_t>{0, 1}));
}

TEST(IlpCbc, ATooLargeProgramGivesALocalSearchWithABound) {
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const auto answers = IlpCbc(3).solve(pair_space(), budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_NE(answers->front().method.find("too many"), std::string::npos);
  EXPECT_TRUE(answers->front().lower_bound <= 3);
  EXPECT_FALSE(answers->front().choice.empty());
}

TEST(IlpCbc, AnExpiredDeadlineStillGivesAnHonestAnswer) {
  SearchLimits limits;
  limits.deadline_seconds = 0;
  const std::vector<std::int64_t> budgets = {30};
  const auto answers = IlpCbc(1000).solve(pair_space(), budgets, limits);
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_NE(answers->front().status, SolveStatus::infeasible);
}

}  // namespace
}  // namespace meshwright
