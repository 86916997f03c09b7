#include "elimination.h"

#include <gtest/gtest.h>

#include <random>

#include "pair_space.h"

namespace meshwright {
namespace {

constexpr std::int64_t kEntries = 200'000'000;

TEST(Elimination, AnswersAscendingBudgets) {
  const std::vector<std::int64_t> budgets = {14, 15, 99, 100, kNoBudget};
  const auto answers = Elimination(kEntries).solve(pair_space(), budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ((*answers)[0].binding, "needs at least 15 bytes per device at time 1; the budget is 14 bytes");
  EXPECT_EQ((*answers)[1].choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ((*answers)[2].choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ((*answers)[3].choice, (std::vector<std::uint32_t>{0, 1}));
  for (std::size_t i = 1; i < budgets.size(); ++i) EXPECT_EQ((*answers)[i].status, SolveStatus::optimal) << i;
}

// Two points that can each be kept within 10, but not both: a node holds either at the one or at the other.
TEST(Elimination, ProvesThatPointsDoNotFitTogether) {
  StrategySpace space;
  space.nodes = {{"a", {0, 0}}, {"b", {0, 0}}, {"c", {0, 0}}};
  for (std::uint32_t node = 0; node < 3; ++node) {
    space.memory.push_back({node, 0, 1, {6, 0}});
    space.memory.push_back({node, 1, 2, {0, 6}});
  }
  const std::vector<std::int64_t> budgets = {11, 12};
  const auto answers = Elimination(kEntries).solve(space, budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ((*answers)[0].status, SolveStatus::infeasible);
  EXPECT_EQ((*answers)[0].least_bytes, 12);
  EXPECT_EQ((*answers)[1].status, SolveStatus::optimal);
}

// Costs so large that their sum does not fit 64 bits are shifted: then the bound is honest and the choice right.
TEST(Elimination, StaysHonestWhereSumsDoNotFit64Bits) {
  StrategySpace space;
  for (int i = 0; i < 20; ++i)
    space.nodes.push_back({"n" + std::to_string(i), {kForbidden - 1, kForbidden - 2 - (Ticks{1} << 20)}});
  const std::vector<std::int64_t> budgets = {kNoBudget};
  SearchLimits limits;
  limits.work_limit = 10'000'000;
  const auto answers = Elimination(kEntries).solve(space, budgets, limits);
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ(answers->front().choice, std::vector<std::uint32_t>(20, 1));
  EXPECT_TRUE(answers->front().lower_bound <= answers->front().cost);
}

// Forty things, each of which costs something to leave out of the room for half of them.
StrategySpace packed(std::uint32_t seed, std::int64_t& all_bytes) {
  std::mt19937 random(seed);
  StrategySpace space;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::int64_t bytes = 1000 + random() % 1000;
    space.nodes.push_back({"n" + std::to_string(i), {1'000'000, static_cast<Ticks>(1'000'000 + 100 * bytes + random() % 50'000)}});
    space.memory.push_back({i, 0, 1, {bytes, 0}});
    all_bytes += bytes;
  }
  return space;
}

TEST(Elimination, StopsWhereAnAnswerIsGoodEnough) {
  SearchLimits enough;
  enough.gap = 0.01;
  int dearer = 0;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::int64_t all = 0;
    const StrategySpace space = packed(seed, all);
    const std::vector<std::int64_t> budgets = {all / 2};
    const auto exact = Elimination(kEntries).solve(space, budgets, {}), near = Elimination(kEntries).solve(space, budgets, enough);
    ASSERT_TRUE(exact.ok() && near.ok());
    const Assignment &least = exact->front(), &answer = near->front();
    EXPECT_EQ(least.status, SolveStatus::optimal);
    EXPECT_LE(answer.peak_bytes, budgets[0]);
    EXPECT_TRUE(answer.lower_bound <= least.cost && least.cost <= answer.cost);
    EXPECT_LE(to_seconds(answer.cost), 1.01 * to_seconds(answer.lower_bound));
    if (least.cost < answer.cost) ++dearer;
  }
  EXPECT_GT(dearer, 0);
}

TEST(Elimination, SaysWhatAStrategyCostsAtLeast) {
  // Two nodes and what they cost together; the second strategy of b goes with the first of a alone.
  StrategySpace space;
  space.nodes = {{"a", {1, 5}}, {"b", {2, 3, kForbidden}}};
  space.tables = {{2, 3, {10, 20, 0, 4, kForbidden, 0}}};
  space.edges = {{0, 1, 0}};
  const Result<LeastCosts> costs = Elimination(kEntries).least_costs(space, {});
  ASSERT_TRUE(costs.ok()) << costs.error().message;
  EXPECT_EQ(*costs, (LeastCosts{{13, 11}, {11, 24, kForbidden}}));
  SearchLimits little;
  little.work_limit = 1;
  EXPECT_TRUE(Elimination(kEntries).least_costs(space, little)->empty());
}

TEST(Elimination, GivesTheSameAnswerTwice) {
  StrategySpace space = pair_space();
  space.nodes[1].costs = {2, 2};
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const auto first = Elimination(kEntries).solve(space, budgets, {});
  const auto second = Elimination(kEntries).solve(space, budgets, {});
  EXPECT_EQ(first->front().choice, second->front().choice);
}

}  // namespace
}  // namespace meshwright
