#include "passes.h"

#include <gtest/gtest.h>

namespace meshwright::elimination {
namespace {

// Two buckets of the same tables, of which one is a pair's and one a child's message: "a" with "s", and "b" with "t", which hang together by "c" alone.
TEST(Passes, AMessageIsNoPair) {
  StrategySpace space;
  for (const char* name : {"a", "s", "b", "t", "c"}) space.nodes.push_back({name, {0, 0}});
  space.nodes[1].costs = space.nodes[3].costs = {0, 0, 0};  // messages are laid out with the largest domain last, as pairs are here
  space.tables = {{2, 3, {0, 9, 9, 9, 0, 0}}, {2, 2, {0, 9, 9, 0}}};
  space.edges = {{0, 1, 0}, {4, 2, 1}, {4, 3, 0}};
  Problem problem = make_problem(space);
  Order order;
  order.variables = {4, 2, 0, 1, 3};
  const JoinPlan plan = make_join_plan(problem, order, 1e6);
  Meter meter({});
  Passes passes(problem, plan, meter, true);
  // Without its own cost the message of c is the table of the pair.
  Unaries unaries;
  for (const SpaceNode& node : space.nodes) unaries.push_back(node.costs);
  const auto forward = passes.forward(unaries, false);
  ASSERT_TRUE(forward && forward->allowed);
  const auto backward = passes.backward(*forward);
  ASSERT_TRUE(backward);
  for (std::size_t v = 0; v < unaries.size(); ++v) EXPECT_EQ(backward->rise[v], unaries[v]);
  // With it, c rises by what it costs, and so do those that agree with it.
  Unaries priced = unaries;
  priced[4] = {0, 1};
  const auto again = passes.forward(priced, false);
  ASSERT_TRUE(again && again->allowed);
  const auto rises = passes.backward(*again);
  ASSERT_TRUE(rises);
  EXPECT_EQ(rises->rise[4], (std::vector<Ticks>{0, 1}));
  EXPECT_EQ(rises->rise[2], (std::vector<Ticks>{0, 1}));
  EXPECT_EQ(rises->rise[3], (std::vector<Ticks>{0, 1, 1}));
  EXPECT_EQ(rises->rise[0], (std::vector<Ticks>{0, 0}));
}

}  // namespace
}  // namespace meshwright::elimination
