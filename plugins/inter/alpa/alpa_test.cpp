#include "alpa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement_checks.h"

namespace meshwright {
namespace {

using testing::HasSubstr;

StepProblem drawn(std::uint32_t seed) { return draw_step_problem(StepObjective::alpa, seed); }

TEST(Alpa, FindsTheBestOfAllStages) { expect_best_of_all(Alpa(), drawn); }

// Without a limit, and with one under which the stages must hold less.
TEST(Alpa, ALongLineOnManyDevicesIsExact) {
  for (const std::uint32_t devices : {64U, 1024U}) {
    double last = 0;
    for (const double bytes : {1e9, 150.0}) {
      const StepProblem problem = large_step_problem(StepObjective::alpa, 200, devices, bytes);
      const Result<PlacementAnswer> answer = Alpa().solve(problem), again = Alpa().solve(problem);
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      EXPECT_EQ(answer->status, SolveStatus::optimal) << answer->method;
      EXPECT_EQ(answer->objective, again->objective);
      EXPECT_GE(answer->objective, last);
      last = answer->objective;
    }
  }
}

TEST(Alpa, SaysWhyNothingFits) {
  StepProblem problem = large_step_problem(StepObjective::alpa, 20, 16, 0.5);
  Result<PlacementAnswer> answer = Alpa().solve(problem);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, SolveStatus::infeasible);
  EXPECT_THAT(answer->binding, HasSubstr("on each device; a device has 1 bytes"));
  problem.ways.erase(problem.ways.begin(), problem.ways.end() - 2);
  problem.devices = 24;
  answer = Alpa().solve(problem);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, SolveStatus::infeasible);
  EXPECT_THAT(answer->binding, HasSubstr("do not make 24 devices"));
}

TEST(Alpa, RefusesByName) {
  expect_refused(Alpa(), draw_layer_problem(1), "alpa does not solve this problem");
  expect_refused(Alpa(), draw_step_problem(StepObjective::dapple, 1), "which is one of dapple");
  StepProblem problem = drawn(1);
  problem.devices = kMostPlacementDevices;
  problem.nodes.resize(1000, problem.nodes.front());
  for (StepWay& way : problem.ways) way.nodes.resize(1000);
  expect_refused(Alpa(), problem, "fewer devices");
  problem.ways.front().nodes.pop_back();
  expect_refused(Alpa(), problem, "it must have what each of the 1000 nodes takes");
}

}  // namespace
}  // namespace meshwright
