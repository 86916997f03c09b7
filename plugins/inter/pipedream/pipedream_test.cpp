#include "pipedream.h"

#include <gtest/gtest.h>

#include "placements.h"

namespace meshwright {
namespace {

// The stages are evaluated by the kernel, and all others are tried.
TEST(PipeDream, FindsTheBestOfAllStages) {
  std::size_t feasible = 0;
  constexpr std::uint32_t kDraws = 600;
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    const auto problem = draw_replica_problem(seed);
    const double best = best_objective(problem);
    const Result<PlacementAnswer> answer = PipeDream().solve(problem);
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
  RecordProperty("feasible", static_cast<int>(feasible));
}

TEST(PipeDream, RefusesByName) {
  const Result<PlacementAnswer> other = PipeDream().solve(draw_layer_problem(1));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::bad_input);
  EXPECT_NE(other.error().message.find("pipedream does not solve this problem"), std::string::npos) << other.error().message;

  auto problem = draw_replica_problem(1);
  problem.devices = kMostPlacementDevices;
  problem.nodes.resize(1000, problem.nodes.front());
  problem.edges.clear();
  const Result<PlacementAnswer> large = PipeDream().solve(problem);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::bad_input);
  EXPECT_NE(large.error().message.find("fewer devices"), std::string::npos) << large.error().message;
}

}  // namespace
}  // namespace meshwright
