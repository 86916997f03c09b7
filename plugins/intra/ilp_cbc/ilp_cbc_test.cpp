#include "ilp_cbc.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "engine.h"
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

using Status = EngineAnswer::Status;

// Σ 2x = `right` in 0 ≤ x ≤ 1, and the more of the later columns the dearer.
LinearProgram pick(std::size_t columns, double right) {
  LinearProgram program;
  LinearRow row{{}, Relation::equal, right};
  for (std::uint32_t i = 0; i < columns; ++i) {
    program.columns.push_back({static_cast<double>(i + 1), 1, true});
    row.entries.push_back({i, 2});
  }
  program.rows.push_back(row);
  return program;
}

// Rows of many digits that few choices of columns meet: no relaxation tells which, so nodes must be searched.
LinearProgram market_split() {
  constexpr std::uint32_t kColumns = 30;
  LinearProgram program;
  std::uint32_t state = 1;
  for (std::uint32_t i = 0; i < kColumns; ++i) program.columns.push_back({0, 1, true});
  for (int r = 0; r < 3; ++r) {
    LinearRow row{{}, Relation::equal, 0};
    double sum = 0;
    for (std::uint32_t i = 0; i < kColumns; ++i) {
      state = state * 1664525U + 1013904223U;
      row.entries.push_back({i, static_cast<double>(state >> 25U)});
      sum += row.entries.back().factor;
    }
    row.right = static_cast<double>(static_cast<std::int64_t>(sum / 2));
    for (const double sign : {1.0, -1.0}) {
      const auto slack = static_cast<std::uint32_t>(program.columns.size());
      program.columns.push_back({1, std::numeric_limits<double>::infinity(), false});
      row.entries.push_back({slack, sign});
    }
    program.rows.push_back(row);
  }
  return program;
}

TEST(Cbc, SolvesTheRelaxationAndTheProgram) {
  const EngineLimits limits = {10, 1'000'000};
  const EngineAnswer relaxed = ilp::Cbc().run(pick(4, 3), false, limits);
  ASSERT_EQ(relaxed.status, Status::optimal);
  EXPECT_NEAR(relaxed.objective, 2, 1e-9);
  EXPECT_NEAR(relaxed.values.at(1), 0.5, 1e-9);
  const EngineAnswer whole = ilp::Cbc().run(pick(4, 4), true, limits);
  ASSERT_EQ(whole.status, Status::optimal);
  EXPECT_NEAR(whole.objective, 3, 1e-9);
}

TEST(Cbc, SaysWhatNothingMeets) {
  const EngineLimits limits = {10, 1'000'000};
  EXPECT_EQ(ilp::Cbc().run(pick(4, 3), true, limits).status, Status::infeasible);
  EXPECT_EQ(ilp::Cbc().run(pick(4, 9), false, limits).status, Status::infeasible);
}

TEST(Cbc, CountsNodesSoThatItStopsAtTheSameAnswer) {
  const EngineLimits few = {1e6, 1'000'000};
  const EngineAnswer once = ilp::Cbc().run(market_split(), true, few);
  EXPECT_EQ(once.status, Status::stopped);
  EXPECT_FALSE(once.cut_off_by_clock);
  const EngineAnswer again = ilp::Cbc().run(market_split(), true, few);
  EXPECT_EQ(again.status, Status::stopped);
  EXPECT_FALSE(once.values.empty());
  EXPECT_EQ(once.values, again.values);
}

TEST(Cbc, SaysThatTheClockCutItOff) {
  const EngineAnswer answer = ilp::Cbc().run(market_split(), true, {0.2, std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(answer.status, Status::stopped);
  EXPECT_TRUE(answer.cut_off_by_clock);
}

TEST(Cbc, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  (void)ilp::Cbc().run(market_split(), false, {10, 1'000'000});
  (void)ilp::Cbc().run(market_split(), true, {10, 1'000'000});
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace meshwright
