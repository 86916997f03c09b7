#include "pipedream.h"

#include <gtest/gtest.h>

#include "placement_checks.h"

namespace meshwright {
namespace {

TEST(PipeDream, FindsTheBestOfAllStages) { expect_best_of_all(PipeDream(), draw_replica_problem); }

TEST(PipeDream, RefusesByName) {
  expect_refused(PipeDream(), draw_layer_problem(1), "pipedream does not solve this problem");
  auto problem = draw_replica_problem(1);
  problem.devices = kMostPlacementDevices;
  problem.nodes.resize(1000, problem.nodes.front());
  problem.edges.clear();
  expect_refused(PipeDream(), problem, "fewer devices");
}

}  // namespace
}  // namespace meshwright
