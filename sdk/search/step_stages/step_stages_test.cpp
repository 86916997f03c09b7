#include "step_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// Two servers of four devices; a way on one device, one on four that is no faster a device.
StepProblem two_servers() {
  StepProblem problem;
  problem.nodes = {{"a", 1}, {"b", 1}, {"c", 0}};
  problem.ways = {{"1", 1, {{1, 2, 3, 10, 4, 5}, {2, 4, 0, 20, 8, 9}, {1, 1, 0, 1, 1, 1}}}, {"4", 4, {{1, 1, 1, 3, 1, 1}, {1, 1, 0, 5, 2, 1}, {1, 1, 0, 1, 1, 1}}}};
  problem.groups = {4};
  problem.devices = 8;
  problem.microbatches = 4;
  problem.device_bytes = 100;
  return problem;
}

TEST(StepStages, SumsAreOfNodesInAWay) {
  const StepProblem problem = two_servers();
  const StepStages stages(problem);
  const StageSums sums = stages.sums(0, 0, 2);
  EXPECT_EQ(sums.forward, 3);
  EXPECT_EQ(sums.backward, 6);
  EXPECT_EQ(sums.once, 3);
  EXPECT_EQ(sums.bytes(2), 30 + 2 * 12);
}

TEST(StepStages, AStageBeginsWhereNoGroupIsTorn) {
  StepProblem problem = two_servers();
  problem.ways.push_back({"3", 3, problem.ways[0].nodes});
  problem.ways.push_back({"16", 16, problem.ways[0].nodes});
  const StepStages stages(problem);
  ASSERT_EQ(stages.sizes().size(), 3U);
  EXPECT_THAT(stages.sizes()[1].firsts, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(stages.sizes()[2].firsts, ElementsAre(0, 4));
}

TEST(StepStages, BoundsHoldForAnyStages) {
  const StepProblem problem = two_servers();
  const StepStages stages(problem);
  EXPECT_EQ(stages.least_forward(3), 3);
  EXPECT_EQ(stages.least_backward(3), 3);
  EXPECT_EQ(stages.least_work(3), 3 + 6 + 2);
  EXPECT_EQ(stages.least_seconds(1), 2.25);
  EXPECT_EQ(stages.least_pace(), 2);  // a node alone, in its fastest way
  EXPECT_EQ(stages.most_pace(), 11.75);
  // a takes 3 device-seconds, b and c 8: of a pace of 2, two devices before them at least and four behind.
  EXPECT_EQ(stages.band(1, 2).begin, 2U);
  EXPECT_EQ(stages.band(1, 2).end, 5U);
  EXPECT_LE(stages.band(1, 1).end, stages.band(1, 1).begin);
}

TEST(StepStages, NoMoreIsInFlightThanThereIs) {
  StepProblem problem = two_servers();
  const FlightClasses three(problem, 100);  // of three nodes, in four microbatches
  EXPECT_EQ(three.count(), 3U);
  EXPECT_EQ(three.in_flight(2), 3);
  EXPECT_TRUE(three.exact());
  const FlightClasses two(problem, 2);
  EXPECT_EQ(two.in_flight(0), 1);
  EXPECT_EQ(two.in_flight(1), 3);
  EXPECT_FALSE(two.exact());
  problem.microbatches = 2;
  EXPECT_TRUE(FlightClasses(problem, 2).exact());
}

TEST(StepStages, SaysWhyNoneFit) {
  StepProblem problem = two_servers();
  problem.device_bytes = 7;
  EXPECT_THAT(no_stages(problem, false).binding, HasSubstr("b needs at least 8 bytes on each device; a device has 7 bytes"));
  problem.device_bytes = 8;
  EXPECT_THAT(no_stages(problem, false).binding, HasSubstr("no stages of all nodes fit 8 devices; not all"));
  EXPECT_THAT(no_stages(problem, true).binding, EndsWith("no stages of all nodes fit 8 devices"));
  EXPECT_EQ(no_stages(problem, true).status, SolveStatus::infeasible);
  problem.ways.erase(problem.ways.begin());
  problem.devices = 6;
  EXPECT_THAT(no_stages(problem, false).binding, HasSubstr("do not make 6 devices"));
}

}  // namespace
}  // namespace meshwright
