#include "runner_up.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

FittedPlan with(const std::vector<std::int64_t>& mesh, double step, const std::string& no_program = "") {
  FittedPlan fitted;
  for (const std::int64_t size : mesh) fitted.plan.mesh.axes.emplace_back().size = size;
  fitted.plan.step_seconds = step;
  fitted.no_program = no_program;
  return fitted;
}

TEST(RunnerUpAmong, IsTheOneWithTheShortestStep) {
  const FittedPlan best = with({8}, 1), second = with({2, 4}, 3), third = with({8}, 2);
  EXPECT_EQ(runner_up_among({&second, &third}, best.plan), &third);
  EXPECT_EQ(runner_up_among({&second}, best.plan), &second);
  EXPECT_EQ(runner_up_among({}, best.plan), nullptr);
}

TEST(RunnerUpAmong, MayBeFasterThanThePlan) {
  const FittedPlan best = with({8}, 2), second = with({2, 4}, 1), third = with({8}, 3);
  EXPECT_EQ(runner_up_among({&second, &third}, best.plan), &second);
}

TEST(RunnerUpAmong, HasAProgramAndAnotherStep) {
  const FittedPlan best = with({8}, 1), same = with({2, 4}, 1), unknown = with({2, 4}, 1.5, "a pass failed"), third = with({8}, 2);
  EXPECT_EQ(runner_up_among({&same, &unknown, &third}, best.plan), &third);
  EXPECT_EQ(runner_up_among({&same, &unknown}, best.plan), nullptr);
}

}  // namespace
}  // namespace meshwright
