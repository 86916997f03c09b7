// What every Engine must pass, with the IntraSolver that its plugin makes of it. A plugin's test instantiates it with a
// struct that names both and says whether the engine counts its work:
//
//   struct OfCbc { using Solver = IlpCbc; using Engine = ilp::Cbc; static constexpr bool kCounts = true; };
//   INSTANTIATE_TYPED_TEST_SUITE_P(IlpCbc, EngineSuite, OfCbc);
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "integer_solver.h"
#include "pair_space.h"

namespace meshwright {

// Σ 2x = `right` in 0 ≤ x ≤ 1, and the more of the later columns the dearer.
inline LinearProgram pick(std::uint32_t columns, double right) {
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
inline LinearProgram market_split(int rows = 3, std::uint32_t columns = 30) {
  LinearProgram program;
  std::uint32_t state = 1;
  for (std::uint32_t i = 0; i < columns; ++i) program.columns.push_back({0, 1, true});
  for (int r = 0; r < rows; ++r) {
    LinearRow row{{}, Relation::equal, 0};
    double sum = 0;
    for (std::uint32_t i = 0; i < columns; ++i) {
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

template <class Of>
class EngineSuite : public testing::Test {
 protected:
  using Status = EngineAnswer::Status;

  static Assignment solve(const StrategySpace& space, std::int64_t budget, const IntegerOptions& options = {},
                          const SearchLimits& limits = {}) {
    const std::vector<std::int64_t> budgets = {budget};
    const auto answers = typename Of::Solver(options).solve(space, budgets, limits);
    EXPECT_TRUE(answers.ok()) << answers.error().message;
    return answers.ok() ? answers->front() : Assignment{};
  }
  static EngineAnswer run(const LinearProgram& program, bool integer, const EngineLimits& limits = {10, 1'000'000}) {
    return typename Of::Engine().run(program, integer, limits);
  }
};
TYPED_TEST_SUITE_P(EngineSuite);

TYPED_TEST_P(EngineSuite, ProvesSmallAnswersAndExplainsWhatDoesNotFit) {
  EXPECT_EQ(this->solve(pair_space(), 14).binding,
            "needs at least 15 bytes per device at time 1; the budget is 14 bytes");
  const Assignment tight = this->solve(pair_space(), 30);
  EXPECT_EQ(tight.status, SolveStatus::optimal);
  EXPECT_EQ(tight.choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(this->solve(pair_space(), 100).choice, (std::vector<std::uint32_t>{0, 1}));
}

// A ring of pairs that would rather differ: an odd one can't have it all, which no bound on single pairs tells.
inline StrategySpace odd_ring(std::uint32_t nodes = 5) {
  StrategySpace space;
  space.tables = {{2, 2, {10, 0, 0, 10}}};
  for (std::uint32_t id = 0; id < nodes; ++id) {
    space.nodes.push_back({"n" + std::to_string(id), {id, 1}});
    space.edges.push_back({id, (id + 1) % nodes, 0});
    space.memory.push_back({id, 0, 1, {1, 2}});
  }
  return space;
}

TYPED_TEST_P(EngineSuite, AnEngineByItselfProvesWhatItIsGiven) {
  IntegerOptions all;
  all.messages = false;
  const Assignment answer = this->solve(odd_ring(), 8, all);
  EXPECT_EQ(answer.status, SolveStatus::optimal) << answer.method;
  EXPECT_EQ(answer.method, typename TypeParam::Engine().name());
}

TYPED_TEST_P(EngineSuite, ATooLargeProgramGivesASearchWithABound) {
  const Assignment answer = this->solve(odd_ring(), 8, {3, false});
  EXPECT_NE(answer.method.find("too many"), std::string::npos) << answer.method;
  EXPECT_NE(answer.status, SolveStatus::optimal);
  EXPECT_TRUE(answer.lower_bound <= 13);
  EXPECT_FALSE(answer.choice.empty());
}

TYPED_TEST_P(EngineSuite, AnExpiredDeadlineStillGivesAnHonestAnswer) {
  SearchLimits limits;
  limits.deadline_seconds = 0;
  EXPECT_NE(this->solve(odd_ring(), 30, {}, limits).status, SolveStatus::infeasible);
}

TYPED_TEST_P(EngineSuite, SolvesTheRelaxationAndTheProgram) {
  using Status = EngineAnswer::Status;
  const EngineAnswer relaxed = this->run(pick(4, 3), false);
  ASSERT_EQ(relaxed.status, Status::optimal);
  EXPECT_NEAR(relaxed.objective, 2, 1e-9);
  EXPECT_NEAR(relaxed.values.at(1), 0.5, 1e-9);
  const EngineAnswer whole = this->run(pick(4, 4), true);
  ASSERT_EQ(whole.status, Status::optimal);
  EXPECT_NEAR(whole.objective, 3, 1e-9);
}

TYPED_TEST_P(EngineSuite, SaysWhatNothingMeets) {
  using Status = EngineAnswer::Status;
  EXPECT_EQ(this->run(pick(4, 3), true).status, Status::infeasible);
  EXPECT_EQ(this->run(pick(4, 9), false).status, Status::infeasible);
}

TYPED_TEST_P(EngineSuite, CountsSoThatItStopsAtTheSameAnswer) {
  if (!TypeParam::kCounts) GTEST_SKIP() << "the engine has no limit that is counted";
  const EngineLimits few = {1e6, 1'000'000};
  const EngineAnswer once = this->run(market_split(), true, few);
  EXPECT_EQ(once.status, EngineAnswer::Status::stopped);
  EXPECT_FALSE(once.cut_off_by_clock);
  const EngineAnswer again = this->run(market_split(), true, few);
  EXPECT_EQ(again.status, EngineAnswer::Status::stopped);
  EXPECT_FALSE(once.values.empty());
  EXPECT_EQ(once.values, again.values);
}

TYPED_TEST_P(EngineSuite, SaysThatTheClockCutItOff) {
  const EngineAnswer answer = this->run(market_split(5, 60), true, {0.2, std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(answer.status, EngineAnswer::Status::stopped);
  EXPECT_TRUE(answer.cut_off_by_clock);
}

TYPED_TEST_P(EngineSuite, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  (void)this->run(market_split(), false, {1, 1'000'000});
  (void)this->run(market_split(), true, {1, 1'000'000});
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

REGISTER_TYPED_TEST_SUITE_P(EngineSuite, ProvesSmallAnswersAndExplainsWhatDoesNotFit,
                            AnEngineByItselfProvesWhatItIsGiven, ATooLargeProgramGivesASearchWithABound,
                            AnExpiredDeadlineStillGivesAnHonestAnswer, SolvesTheRelaxationAndTheProgram,
                            SaysWhatNothingMeets, CountsSoThatItStopsAtTheSameAnswer, SaysThatTheClockCutItOff,
                            PrintsNothing);

}  // namespace meshwright
