#include "message_passing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "price_ascent.h"
#include "small_space.h"

namespace meshwright {
namespace {

constexpr std::uint64_t kSpaces = 200;

PointPrices random_prices(const CompactSpace& space, std::mt19937_64& random) {
  PointPrices prices;
  for (std::size_t t = 0; t < space.rooms().size(); ++t) {
    prices.push_back(random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % (std::uint64_t{8} << kPriceBits)));
  }
  return prices;
}

TEST(MessagePassing, BoundsTheLeastCostAtAnyPrices) {
  std::mt19937_64 random(1);
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    const StrategySpace space = small_space(seed);
    for (const std::int64_t budget : {10, 20, 30}) {
      const std::optional<TickSum> least = least_cost(space, budget);
      if (!least) continue;
      ++feasible;
      const CompactSpace compact(space, budget);
      MessagePassing messages(compact);
      for (int change = 0; change < 4; ++change) {
        ASSERT_TRUE(messages.set_prices(random_prices(compact, random)));
        double before = messages.bound();
        for (int sweep = 0; sweep < 4; ++sweep) {
          messages.sweep();
          ASSERT_LE(messages.bound(), static_cast<double>(*least)) << "seed " << seed << ", budget " << budget;
          ASSERT_GE(messages.bound(), before) << "seed " << seed;
          before = messages.bound();
        }
      }
    }
  }
  EXPECT_GT(feasible, 200);
}

TEST(MessagePassing, IsExactOnChains) {
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    StrategySpace space = small_space(seed);
    std::erase_if(space.edges, [](const SpaceEdge& edge) { return edge.to != edge.from + 1 && edge.from != edge.to + 1; });
    const std::optional<TickSum> least = least_cost(space, 1000);
    const CompactSpace compact(space, 1000);
    MessagePassing messages(compact);
    messages.sweep();
    messages.sweep();
    EXPECT_EQ(messages.bound(), least ? static_cast<double>(*least) : kNever) << "seed " << seed;
    if (!least) continue;
    const Evaluation evaluation = evaluate(space, messages.choice());
    EXPECT_TRUE(evaluation.allowed && evaluation.cost == *least) << "seed " << seed;
  }
}

TEST(MessagePassing, ExcludesOnlyWhatNoChoiceOfTheCostHas) {
  std::size_t excluded = 0;
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    const StrategySpace space = small_space(seed);
    constexpr std::int64_t kBudget = 25;
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const CompactSpace compact(space, kBudget);
    PriceAscent ascent(compact, {});
    for (int step = 0; step < 20; ++step) ascent.step(static_cast<double>(*least));
    ascent.exclude_above(static_cast<double>(*least + 2), 3);
    EXPECT_LE(ascent.bound(), static_cast<double>(*least)) << "seed " << seed;
    for_each_choice(space, [&](const auto& choice, const Evaluation& evaluation) {
      if (!evaluation.allowed || evaluation.peak_bytes > kBudget || evaluation.cost > *least + 2) return;
      for (std::uint32_t node = 0; node < choice.size(); ++node) {
        EXPECT_FALSE(ascent.messages().is_excluded(compact.offset(node) + choice[node])) << "seed " << seed;
      }
    });
    for (std::size_t s = 0; s < compact.strategies(); ++s) excluded += ascent.messages().is_excluded(s) ? 1 : 0;
  }
  EXPECT_GT(excluded, kSpaces);
}

TEST(MessagePassing, BoundsFromAnyMessages) {
  std::mt19937_64 random(2);
  int kept = 0;
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, 1000);
    if (!least) continue;
    const CompactSpace compact(space, 1000);
    std::vector<std::uint32_t> nodes;
    std::vector<std::vector<std::uint32_t>> strategies;
    for (std::uint32_t node = 0; node < compact.size(); ++node) {
      nodes.push_back(node);
      strategies.emplace_back();
      for (std::uint32_t s = 0; s < compact.domain(node); ++s) strategies.back().push_back(s);
    }
    MessagePassing swept(compact);
    for (int sweep = 0; sweep < 20; ++sweep) swept.sweep();
    Messages messages = swept.messages();
    MessagePassing same(compact);
    same.start_from(messages, nodes, strategies);
    same.sweep();
    kept += same.bound() >= swept.bound() ? 1 : 0;
    for (auto& [pair, of_ends] : messages) {
      for (auto& of_end : of_ends) {
        for (double& message : of_end) message = static_cast<double>(random() % 100) - 50;
      }
    }
    MessagePassing other(compact);
    other.start_from(messages, nodes, strategies);
    for (int sweep = 0; sweep < 5; ++sweep) {
      other.sweep();
      ASSERT_LE(other.bound(), static_cast<double>(*least)) << "seed " << seed;
    }
  }
  EXPECT_GT(kept, 100);
}

TEST(PriceAscent, PricesPeaksAndNotWhatLiesBesideThem) {
  // Over all of many points alike; a price at one of them is enough, and found in a few steps.
  std::mt19937_64 random(3);
  StrategySpace space;
  for (std::uint32_t id = 0; id < 40; ++id) {
    space.nodes.push_back({std::to_string(id), {0, static_cast<Ticks>(1000 + random() % 1000)}});
    space.memory.push_back({id, static_cast<std::int32_t>(id), static_cast<std::int32_t>(400 + id), {100, 0}});
    for (std::int32_t begin = 40; begin < 400; begin += 10) space.memory.push_back({id, begin, begin + 1, {static_cast<std::int64_t>(random() % 3), 0}});
  }
  const CompactSpace compact(space, 2000);
  PriceAscent ascent(compact, {});
  for (int step = 0; step < 100; ++step) ascent.step(30'000);
  EXPECT_LE(std::count_if(ascent.prices().begin(), ascent.prices().end(), [](std::int64_t price) { return price > 0; }), 8);
}

TEST(PriceAscent, PricesMemoryThatBinds) {
  // Both want their fast strategy, which holds 6 bytes; one may.
  StrategySpace space;
  space.nodes = {{"a", {0, 10}}, {"b", {0, 10}}};
  space.memory = {{0, 0, 1, {6, 0}}, {1, 0, 1, {6, 0}}};
  const CompactSpace compact(space, 6);
  PriceAscent ascent(compact, {});
  EXPECT_EQ(ascent.bound(), 0);
  for (int step = 0; step < 200; ++step) ascent.step(10);
  EXPECT_GT(ascent.prices()[0], 0);
  EXPECT_GE(ascent.bound(), 9);
  EXPECT_LE(ascent.bound(), 10);
}

TEST(PriceAscent, BoundsChoicesWithoutSomeStrategies) {
  constexpr std::int64_t kBudget = 25;
  int higher = 0;
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const CompactSpace compact(space, kBudget);
    PriceAscent ascent(compact, {});
    for (int step = 0; step < 20; ++step) ascent.step(static_cast<double>(*least));
    const auto taken = static_cast<std::uint32_t>(seed % space.nodes[0].costs.size());
    std::vector<std::size_t> others;
    for (std::uint32_t s = 0; s < compact.domain(0); ++s) {
      if (s != taken) others.push_back(compact.offset(0) + s);
    }
    PriceAscent with = ascent.without(others);
    for (int step = 0; step < 20; ++step) with.step(static_cast<double>(*least));
    double least_with = kNever;
    for_each_choice(space, [&](const auto& choice, const Evaluation& evaluation) {
      if (choice[0] != taken || !evaluation.allowed || evaluation.peak_bytes > kBudget) return;
      least_with = std::min(least_with, static_cast<double>(evaluation.cost));
    });
    EXPECT_LE(with.bound(), least_with) << "seed " << seed;
    higher += with.bound() > static_cast<double>(*least) ? 1 : 0;
  }
  EXPECT_GT(higher, 20);
}

TEST(MessagePassing, RefusesPricesWhoseSharesWouldNotFit) {
  StrategySpace space;
  space.nodes = {{"a", {0, 10}}};
  space.memory = {{0, 0, 1, {std::int64_t{1} << 61, 0}}};
  const CompactSpace compact(space, 6);
  MessagePassing messages(compact);
  EXPECT_FALSE(messages.set_prices({std::int64_t{1} << 62}));
  messages.sweep();
  EXPECT_EQ(messages.bound(), 0);
}

// Costs beyond 2^50 in all are shifted, and the bound with them.
TEST(MessagePassing, BoundsSpacesWithLargeCosts) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const StrategySpace space = small_space(seed, 6, Ticks{1} << 58);
    const std::optional<TickSum> least = least_cost(space, 1000);
    if (!least) continue;
    const CompactSpace compact(space, 1000);
    MessagePassing messages(compact);
    messages.sweep();
    EXPECT_TRUE(static_cast<TickSum>(messages.bound()) << compact.shift() <= *least) << "seed " << seed;
  }
}

}  // namespace
}  // namespace meshwright
