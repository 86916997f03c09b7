// What every solver of kind inter is held to.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "placements.h"

namespace meshwright {

// Of drawn problems: the stages are evaluated by the kernel, and all others are tried.
template <class Draw>
void expect_best_of_all(const InterSolver& solver, const Draw& draw) {
  std::size_t feasible = 0;
  constexpr std::uint32_t kDraws = 600;
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    const auto problem = draw(seed);
    const double best = best_objective(problem);
    const Result<PlacementAnswer> answer = solver.solve(problem);
    ASSERT_TRUE(answer.ok()) << seed << ": " << answer.error().message;
    if (answer->status == SolveStatus::infeasible) {
      EXPECT_EQ(best, std::numeric_limits<double>::infinity()) << seed;
      EXPECT_NE(answer->binding, "");
      continue;
    }
    ++feasible;
    EXPECT_EQ(answer->status, SolveStatus::optimal) << seed;
    EXPECT_NEAR(answer->objective, best, 1e-9 * best) << seed;
  }
  EXPECT_GT(feasible, kDraws / 3);
  testing::Test::RecordProperty("feasible", static_cast<int>(feasible));
}

inline void expect_refused(const InterSolver& solver, const PlacementProblem& problem, const std::string& why) {
  const Result<PlacementAnswer> answer = solver.solve(problem);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::bad_input);
  EXPECT_NE(answer.error().message.find(why), std::string::npos) << answer.error().message;
}

}  // namespace meshwright
