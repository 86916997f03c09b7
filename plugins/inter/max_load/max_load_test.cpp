#include "max_load.h"

#include <gtest/gtest.h>

#include "placement_checks.h"

namespace meshwright {
namespace {

TEST(MaxLoad, FindsTheBestOfAllStages) { expect_best_of_all(MaxLoad(), draw_load_problem); }

TEST(MaxLoad, RefusesByName) {
  expect_refused(MaxLoad(), draw_replica_problem(1), "max_load does not solve this problem");
  auto problem = draw_load_problem(1);
  problem.accelerators = problem.hosts = kMostPlacementDevices;
  problem.nodes.resize(1000, problem.nodes.front());
  problem.edges.clear();
  expect_refused(MaxLoad(), problem, "fewer devices");
}

}  // namespace
}  // namespace meshwright
