#include "held_space.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace meshwright {
namespace {

// By trying all choices.
Result<std::vector<std::uint32_t>> try_all(const StrategySpace& space, std::int64_t budget) {
  std::vector<std::uint32_t> choice(space.nodes.size(), 0), best;
  std::optional<TickSum> least;
  while (true) {
    const Evaluation here = evaluate(space, choice);
    if (here.allowed && here.peak_bytes <= budget && (!least || here.cost < *least)) {
      least = here.cost;
      best = choice;
    }
    std::size_t node = 0;
    while (node < choice.size() && ++choice[node] == space.nodes[node].costs.size()) choice[node++] = 0;
    if (node == choice.size()) return best;
  }
}

// A chain of nodes with three strategies each, drawn.
StrategySpace drawn_chain(std::uint32_t nodes, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&] { return static_cast<Ticks>(random() % 50); };
  StrategySpace space;
  for (std::uint32_t i = 0; i < nodes; ++i) space.nodes.push_back({"n" + std::to_string(i), {draw(), draw(), draw()}});
  for (std::uint32_t i = 0; i + 1 < nodes; ++i) {
    CostTable table{3, 3, {}};
    for (int k = 0; k < 9; ++k) table.costs.push_back(k == 4 && i % 2 == 0 ? kForbidden : draw());
    space.tables.push_back(table);
    space.edges.push_back({i, i + 1, i});
  }
  for (std::uint32_t i = 0; i < nodes; ++i) space.memory.push_back({i, 0, static_cast<std::int32_t>(i) + 1, {draw(), draw(), draw()}});
  space.fixed_bytes = 5;
  return space;
}

// The best choice among all of the whole space that differ in free nodes alone.
std::optional<TickSum> least_cost(StrategySpace space, const std::vector<std::uint32_t>& choice, const std::vector<bool>& is_free, std::int64_t budget) {
  for (std::size_t node = 0; node < space.nodes.size(); ++node) {
    for (std::uint32_t s = 0; s < 3; ++s) {
      if (!is_free[node] && s != choice[node]) space.nodes[node].costs[s] = kForbidden;
    }
  }
  const std::vector<std::uint32_t> best = try_all(space, budget).value();
  return best.empty() ? std::nullopt : std::optional(evaluate(space, best).cost);
}

TEST(HeldSpace, ItsBestChoiceIsTheBestOfThoseThatDifferInFreeNodesAlone) {
  const std::vector<bool> is_free = {true, true, false, false, true, false, true};
  int bound = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const StrategySpace space = drawn_chain(7, seed);
    const std::vector<std::uint32_t> choice = try_all(space, std::numeric_limits<std::int64_t>::max()).value();
    const HeldSpace held = hold(space, choice, is_free);
    EXPECT_TRUE(validate(held.space));
    EXPECT_EQ(held.nodes, (std::vector<std::uint32_t>{0, 1, 4, 6}));
    const std::int64_t peak = evaluate(space, choice).peak_bytes;
    for (const std::int64_t budget : {std::numeric_limits<std::int64_t>::max(), peak - 1}) {
      const std::vector<std::uint32_t> best = best_around(space, choice, held, budget, try_all).value();
      const std::optional<TickSum> expected = least_cost(space, choice, is_free, budget);
      ASSERT_EQ(best.empty(), !expected.has_value()) << seed;
      if (!expected) continue;
      bound += budget < peak;
      EXPECT_TRUE(evaluate(space, best).cost == *expected) << seed;
      EXPECT_LE(evaluate(space, best).peak_bytes, budget) << seed;
    }
  }
  EXPECT_GT(bound, 5);
}

// Layers that are alike, and have nothing to do with each other once what joins them is held.
TEST(HeldSpace, EqualPartsAreSolvedOnce) {
  StrategySpace space;
  space.tables = {{2, 2, {0, 3, 4, 1}}};
  for (std::uint32_t i = 0; i < 9; ++i) {
    space.nodes.push_back({"n", {2, 1}});
    if (i > 0) space.edges.push_back({i - 1, i, 0});
  }
  std::vector<bool> is_free(9, true);
  is_free[2] = is_free[5] = is_free[8] = false;  // 0 1, 3 4, 6 7: the last two are alike
  int solved = 0;
  const auto counted = [&](const StrategySpace& part, std::int64_t budget) {
    ++solved;
    return try_all(part, budget);
  };
  const std::vector<std::uint32_t> choice(9, 0);
  const auto best = best_around(space, choice, hold(space, choice, is_free), std::numeric_limits<std::int64_t>::max(), counted).value();
  EXPECT_EQ(solved, 2);
  EXPECT_EQ(best.size(), 9U);
}

TEST(HeldSpace, NothingIsFoundWhereNothingIsAllowed) {
  StrategySpace space;
  space.nodes = {{"a", {1}}, {"b", {kForbidden, 2}}};
  space.tables = {{1, 2, {0, kForbidden}}};
  space.edges = {{0, 1, 0}};
  const std::vector<std::uint32_t> choice = {0, 0};
  EXPECT_TRUE(best_around(space, choice, hold(space, choice, {false, true}), std::numeric_limits<std::int64_t>::max(), try_all)->empty());
}

}  // namespace
}  // namespace meshwright
