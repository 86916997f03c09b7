#include "meshwright/strategy_space.h"

#include <gtest/gtest.h>

#include <functional>

namespace meshwright {
namespace {

// a -> b, and what they hold: a during [0, 4), b during [2, 6).
StrategySpace small_space() {
  StrategySpace space;
  space.nodes = {{"a", {1, 5}}, {"b", {2, 0, kForbidden}}};
  space.tables = {{2, 3, {10, 20, 30, 40, kForbidden, 60}}};
  space.edges = {{0, 1, 0}};
  space.memory = {{0, 0, 4, {100, 10}}, {1, 2, 6, {7, 8, 9}}};
  space.fixed_bytes = 1000;
  return space;
}

TEST(Validate, AcceptsAWholeSpace) { EXPECT_TRUE(validate(small_space()).ok()); }

TEST(Validate, NamesWhatIsWrong) {
  struct Case {
    std::function<void(StrategySpace&)> damage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](StrategySpace& s) { s.nodes[0].costs.clear(); }, "node 'a' has no strategy"},
      {[](StrategySpace& s) { s.nodes[1].costs[0] = -1; }, "node 'b' has a negative cost"},
      {[](StrategySpace& s) { s.tables[0].costs.pop_back(); }, "cost table 0 has 5 costs for 2 rows and 3 columns"},
      {[](StrategySpace& s) { s.tables[0].costs[0] = -1; }, "cost table 0 has a negative cost"},
      {[](StrategySpace& s) { s.edges[0].to = 2; }, "edge 0 has no such node"},
      {[](StrategySpace& s) { s.edges[0].to = 0; }, "edge 0 from node 'a' to node 'a' joins a node to itself"},
      {[](StrategySpace& s) { s.edges[0].table = 1; }, "edge 0 has no such cost table"},
      {[](StrategySpace& s) { std::swap(s.edges[0].from, s.edges[0].to); },
       "edge 0 from node 'b' to node 'a': its cost table does not have a row and a column for each of their "
       "strategies"},
      {[](StrategySpace& s) { s.memory[1].end = 2; }, "memory term 1 of node 'b' ends before it begins"},
      {[](StrategySpace& s) { s.memory[0].bytes.push_back(1); },
       "memory term 0 of node 'a' does not have bytes for each of the node's strategies"},
      {[](StrategySpace& s) { s.memory[0].bytes[1] = -1; }, "memory term 0 of node 'a' has negative bytes"},
      {[](StrategySpace& s) { s.memory[0].bytes[1] = std::int64_t{1} << 62; },
       "memory term 0 of node 'a': the terms' bytes add up to more than 2^62"},
      {[](StrategySpace& s) { s.memory[0].node = 9; }, "memory term 0 has no such node"},
      {[](StrategySpace& s) { s.fixed_bytes = -1; }, "the fixed bytes are negative"},
  };
  for (const Case& test : cases) {
    StrategySpace space = small_space();
    test.damage(space);
    const Status status = validate(space);
    ASSERT_FALSE(status.ok()) << test.message;
    EXPECT_EQ(status.error().message, test.message);
    EXPECT_EQ(status.error().code, ErrorCode::bad_input);
  }
}

TEST(Evaluate, AddsCostsAndFindsTheFirstPeak) {
  const std::vector<std::uint32_t> choice = {0, 1};
  const Evaluation evaluation = evaluate(small_space(), choice);
  EXPECT_TRUE(evaluation.allowed);
  EXPECT_EQ(static_cast<std::int64_t>(evaluation.cost), 1 + 0 + 20);
  EXPECT_EQ(evaluation.peak_bytes, 1000 + 100 + 8);
  EXPECT_EQ(evaluation.peak_time, 2);
  EXPECT_EQ(cost_of(small_space(), choice), evaluation.cost);
}

TEST(Evaluate, LeavesForbiddenEntriesOutOfTheSum) {
  const std::vector<std::uint32_t> choice = {1, 1};
  const Evaluation evaluation = evaluate(small_space(), choice);
  EXPECT_FALSE(evaluation.allowed);
  EXPECT_EQ(static_cast<std::int64_t>(evaluation.cost), 5);
  EXPECT_EQ(cost_of(small_space(), choice), std::nullopt);
}

TEST(Evaluate, WhatEndsMakesRoomForWhatBegins) {
  StrategySpace space = small_space();
  space.memory[1].begin = 4;
  const std::vector<std::uint32_t> choice = {0, 0};
  EXPECT_EQ(evaluate(space, choice).peak_bytes, 1100);
  EXPECT_EQ(evaluate(space, choice).peak_time, 0);
}

TEST(Evaluate, SumsBeyond64Bits) {
  StrategySpace space;
  for (int i = 0; i < 20; ++i) space.nodes.push_back({std::to_string(i), {kForbidden - 1}});
  const std::vector<std::uint32_t> choice(20, 0);
  EXPECT_TRUE(evaluate(space, choice).cost == TickSum{20} * (kForbidden - 1));
}

}  // namespace
}  // namespace meshwright
