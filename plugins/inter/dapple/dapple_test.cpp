#include "dapple.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement_checks.h"

namespace meshwright {
namespace {

using testing::HasSubstr;

StepProblem drawn(std::uint32_t seed) { return draw_step_problem(StepObjective::dapple, seed); }

TEST(Dapple, FindsTheBestOfAllStages) { expect_best_of_all(Dapple(), drawn); }

TEST(Dapple, ALongLineOnManyDevices) {
  for (const std::uint32_t devices : {64U, 1024U}) {
    const Result<PlacementAnswer> answer = Dapple().solve(large_step_problem(StepObjective::dapple, 200, devices, 1e9));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_GT(answer->stages.size(), 1U);
  }
}

TEST(Dapple, AnswersTheSameUnderALimit) {
  const StepProblem free = large_step_problem(StepObjective::dapple, 60, 32, 1e9), tight = large_step_problem(StepObjective::dapple, 60, 32, 100);
  const Result<PlacementAnswer> fastest = Dapple().solve(free), answer = Dapple().solve(tight), again = Dapple().solve(tight);
  ASSERT_TRUE(fastest.ok());
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_GT(answer->objective, fastest->objective);
  EXPECT_EQ(answer->objective, again->objective);
  EXPECT_EQ(answer->method, again->method);
}

TEST(Dapple, SaysWhyNothingFits) {
  StepProblem problem = large_step_problem(StepObjective::dapple, 20, 16, 0.5);
  Result<PlacementAnswer> answer = Dapple().solve(problem);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, SolveStatus::infeasible);
  EXPECT_THAT(answer->binding, HasSubstr("on each device; a device has 1 bytes"));
  problem.ways.erase(problem.ways.begin(), problem.ways.end() - 2);
  problem.devices = 24;
  answer = Dapple().solve(problem);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, SolveStatus::infeasible);
  EXPECT_THAT(answer->binding, HasSubstr("do not make 24 devices"));
}

TEST(Dapple, RefusesByName) {
  expect_refused(Dapple(), draw_layer_problem(1), "dapple does not solve this problem");
  expect_refused(Dapple(), draw_step_problem(StepObjective::alpa, 1), "which is one of alpa");
  StepProblem problem = drawn(1);
  problem.devices = kMostPlacementDevices;
  problem.nodes.resize(1000, problem.nodes.front());
  for (StepWay& way : problem.ways) way.nodes.resize(1000);
  expect_refused(Dapple(), problem, "fewer devices");
  problem.ways.front().nodes.pop_back();
  expect_refused(Dapple(), problem, "it must have what each of the 1000 nodes takes");
}

}  // namespace
}  // namespace meshwright
