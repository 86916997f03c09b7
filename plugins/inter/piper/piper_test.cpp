#include "piper.h"

#include <gtest/gtest.h>

#include "placement_checks.h"

namespace meshwright {
namespace {

TEST(Piper, FindsTheBestOfAllStages) { expect_best_of_all(Piper(), draw_layer_problem); }

TEST(Piper, RefusesByName) {
  expect_refused(Piper(), draw_load_problem(1), "piper does not solve this problem");
  auto problem = draw_layer_problem(1);
  problem.devices = problem.samples = kMostPlacementDevices;
  problem.nodes.resize(9000, {"x", {}});
  problem.edges.clear();
  for (LayerNode& node : problem.nodes) node.degrees.clear();
  expect_refused(Piper(), problem, "fewer devices");
}

}  // namespace
}  // namespace meshwright
