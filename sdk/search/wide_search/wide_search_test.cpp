#include "wide_search.h"

#include <gtest/gtest.h>

#include "small_space.h"

namespace meshwright {
namespace {

WideSearchOptions limited(std::int64_t& left) {
  WideSearchOptions options;
  options.spend = [&left](std::int64_t steps) { return (left -= steps) > 0; };
  return options;
}

TEST(WideSearch, IsHonestOnSmallSpaces) {
  int optimal = 0;
  int infeasible = 0;
  int spaces = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const StrategySpace space = small_space(seed);
    for (const std::int64_t budget : {8, 16, 24, 1000}) {
      ++spaces;
      const std::optional<TickSum> least = least_cost(space, budget);
      std::int64_t left = 300'000;
      const WideSearchResult found = wide_search(space, budget, limited(left));
      const std::string where = "seed " + std::to_string(seed) + ", budget " + std::to_string(budget) + ": " + found.method;
      if (found.infeasible) {
        ++infeasible;
        EXPECT_FALSE(least.has_value()) << where;
        EXPECT_TRUE(found.least_bytes == 0 || found.least_bytes > budget) << where;
        EXPECT_TRUE(found.least_bytes != 0 || !least_cost(space, 1000)) << where;
        continue;
      }
      if (!least) {
        EXPECT_TRUE(found.choice.empty()) << where;
        continue;
      }
      EXPECT_TRUE(found.lower_bound <= *least) << where;
      if (found.choice.empty()) continue;
      const Evaluation evaluation = evaluate(space, found.choice);
      EXPECT_TRUE(evaluation.allowed && evaluation.peak_bytes <= budget && evaluation.cost == found.cost) << where;
      EXPECT_TRUE(found.cost >= *least) << where;
      optimal += found.cost == found.lower_bound ? 1 : 0;
    }
  }
  EXPECT_GT(optimal, spaces / 3);
  EXPECT_GT(infeasible, 20);
}

// Wide: every node has edges to nodes far away.
StrategySpace wide_space() {
  std::mt19937_64 random(7);
  StrategySpace space;
  constexpr std::uint32_t kNodes = 120;
  for (std::uint32_t id = 0; id < kNodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = std::to_string(id);
    MemoryTerm term{id, static_cast<std::int32_t>(id), static_cast<std::int32_t>(id + 20), {}};
    for (int s = 0; s < 6; ++s) {
      node.costs.push_back(static_cast<Ticks>(random() % 1000));
      term.bytes.push_back(static_cast<std::int64_t>(random() % 100));
    }
    space.memory.push_back(std::move(term));
    for (int edge = 0; edge < 3 && id > 0; ++edge) {
      CostTable& table = space.tables.emplace_back(CostTable{6, 6, {}});
      for (int i = 0; i < 36; ++i) table.costs.push_back(random() % 8 == 0 ? kForbidden : static_cast<Ticks>(random() % 1000));
      space.edges.push_back({static_cast<std::uint32_t>(random() % id), id, static_cast<std::uint32_t>(space.tables.size() - 1)});
    }
  }
  return space;
}

TEST(WideSearch, AnswersTheSameOnOneThreadAndOnTwo) {
  const StrategySpace space = wide_space();
  std::vector<WideSearchResult> results;
  for (const bool two_threads : {false, true, false}) {
    std::int64_t left = 40'000'000;
    WideSearchOptions options = limited(left);
    options.two_threads = two_threads;
    results.push_back(wide_search(space, 1100, options));
  }
  ASSERT_FALSE(results[0].choice.empty());
  EXPECT_TRUE(results[0].lower_bound > 0 && results[0].lower_bound <= results[0].cost);
  for (const WideSearchResult& other : results) {
    EXPECT_EQ(other.choice, results[0].choice);
    EXPECT_TRUE(other.lower_bound == results[0].lower_bound);
    EXPECT_EQ(other.method, results[0].method);
  }
}

// Every node has edges to all others, and one of them decides most of the bytes: prices cannot settle whether it does.
StrategySpace dense_space(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  StrategySpace space;
  constexpr std::uint32_t kNodes = 8;
  constexpr std::uint32_t kStrategies = 3;
  for (std::uint32_t id = 0; id < kNodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = std::to_string(id);
    MemoryTerm term{id, static_cast<std::int32_t>(id / 2), static_cast<std::int32_t>(id / 2 + 4), {}};
    for (std::uint32_t s = 0; s < kStrategies; ++s) {
      node.costs.push_back(static_cast<Ticks>(id == 0 ? 500 * s : random() % 100));
      term.bytes.push_back(static_cast<std::int64_t>(id == 0 ? 100 - 50 * s : random() % 20));
    }
    space.memory.push_back(std::move(term));
    for (std::uint32_t other = 0; other < id; ++other) {
      CostTable& table = space.tables.emplace_back(CostTable{kStrategies, kStrategies, {}});
      for (std::uint32_t i = 0; i < kStrategies * kStrategies; ++i) table.costs.push_back(static_cast<Ticks>(random() % 20));
      space.edges.push_back({other, id, static_cast<std::uint32_t>(space.tables.size() - 1)});
    }
  }
  return space;
}

TEST(WideSearch, ClosesTheGapOfDenseSpaces) {
  int closed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const StrategySpace space = dense_space(seed);
    constexpr std::int64_t kBudget = 90;
    const TickSum least = *least_cost(space, kBudget);
    std::int64_t left = 1'000'000;
    const WideSearchResult found = wide_search(space, kBudget, limited(left));
    ASSERT_FALSE(found.choice.empty()) << "seed " << seed;
    EXPECT_TRUE(found.cost == least) << "seed " << seed;
    EXPECT_TRUE(found.lower_bound <= least) << "seed " << seed;
    closed += found.lower_bound == least ? 1 : 0;
  }
  EXPECT_GT(closed, 4);
}

TEST(WideSearch, ClosesMoreGapsWithBranches) {
  int closed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const StrategySpace space = dense_space(seed);
    constexpr std::int64_t kBudget = 90;
    std::vector<WideSearchResult> results;
    for (const bool two_threads : {false, true}) {
      std::int64_t left = 20'000'000;
      WideSearchOptions options = limited(left);
      options.two_threads = two_threads;
      results.push_back(wide_search(space, kBudget, options));
    }
    EXPECT_TRUE(results[0].lower_bound <= *least_cost(space, kBudget)) << "seed " << seed;
    EXPECT_TRUE(results[0].lower_bound == results[1].lower_bound) << "seed " << seed;
    EXPECT_EQ(results[0].choice, results[1].choice) << "seed " << seed;
    closed += results[0].lower_bound == results[0].cost ? 1 : 0;
  }
  EXPECT_GT(closed, 32);  // without branches 30
}

TEST(WideSearch, ProvesThatNothingFits) {
  const StrategySpace space = wide_space();
  std::int64_t left = 400'000'000;
  const WideSearchResult found = wide_search(space, 3, limited(left));
  EXPECT_TRUE(found.infeasible);
  EXPECT_GT(found.least_bytes, 3);
}

TEST(WideSearch, HandsWhatIsLeftToAnExactSolver) {
  int calls = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const StrategySpace space = small_space(seed);
    std::int64_t left = 1'000'000;
    WideSearchOptions options = limited(left);
    options.finish = [&calls](const StrategySpace& rest, std::int64_t budget, bool) -> std::optional<Assignment> {
      ++calls;
      Assignment answer;
      for_each_choice(rest, [&](const auto& choice, const Evaluation& evaluation) {
        if (!evaluation.allowed || evaluation.peak_bytes > budget) return;
        if (!answer.choice.empty() && evaluation.cost >= answer.cost) return;
        answer.choice = choice;
        answer.cost = answer.lower_bound = evaluation.cost;
      });
      answer.status = answer.choice.empty() ? SolveStatus::infeasible : SolveStatus::optimal;
      answer.method = "everything tried";
      return answer;
    };
    const WideSearchResult found = wide_search(space, 20, options);
    const std::optional<TickSum> least = least_cost(space, 20);
    EXPECT_EQ(found.infeasible, !least.has_value()) << "seed " << seed;
    if (!least) continue;
    EXPECT_TRUE(found.cost == *least && found.lower_bound == *least) << "seed " << seed << ": " << found.method;
  }
  EXPECT_GT(calls, 20);
}

}  // namespace
}  // namespace meshwright
