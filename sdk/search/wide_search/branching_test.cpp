#include "branching.h"

#include <gtest/gtest.h>

#include "small_space.h"

namespace meshwright {
namespace {

constexpr std::int64_t kBudget = 20;
constexpr int kMostGrowths = 200;

bool never_late() { return false; }

// After a few steps: what is left for branches is what prices alone do not decide.
PriceAscent short_ascent(const CompactSpace& space, double target) {
  PriceAscent ascent(space, {});
  for (int step = 0; step < 10; ++step) ascent.step(target);
  return ascent;
}

TEST(Branching, BoundsTheLeastCostAndReachesIt) {
  int open_at_first = 0;
  int found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const auto cost = static_cast<double>(*least);
    const CompactSpace compact(space, kBudget);
    const PriceAscent root = short_ascent(compact, cost);
    open_at_first += root.bound() < cost ? 1 : 0;
    // A goal below the least cost, at it, and above.
    for (const double goal : {cost - 1, cost, cost + 3}) {
      Branching branching(compact, root, goal);
      double before = branching.bound();
      for (int i = 0; i < kMostGrowths && !branching.is_done(); ++i) {
        branching.grow(false, never_late);
        ASSERT_LE(branching.bound(), cost) << "seed " << seed;
        ASSERT_GE(branching.bound(), before) << "seed " << seed;
        before = branching.bound();
      }
      ASSERT_TRUE(branching.is_done()) << "seed " << seed;
      EXPECT_EQ(branching.bound(), cost) << "seed " << seed << ", goal " << goal;
      EXPECT_EQ(branching.choice().empty(), goal < cost) << "seed " << seed;
      if (branching.choice().empty()) continue;
      ++found;
      const Evaluation evaluation = evaluate(space, branching.choice());
      EXPECT_TRUE(evaluation.allowed && evaluation.peak_bytes <= kBudget) << "seed " << seed;
      EXPECT_EQ(static_cast<double>(evaluation.cost), branching.cost()) << "seed " << seed;
    }
  }
  EXPECT_GT(open_at_first, 20);
  EXPECT_GT(found, 100);
}

TEST(Branching, BoundsWhatItWasCutShortIn) {
  int calls = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const auto cost = static_cast<double>(*least);
    const CompactSpace compact(space, kBudget);
    Branching branching(compact, short_ascent(compact, cost), cost - 1);
    for (int i = 0; i < 5; ++i) {
      branching.grow(false, [&calls] { return ++calls % 7 == 0; });
      EXPECT_LE(branching.bound(), cost) << "seed " << seed;
    }
  }
  EXPECT_GT(calls, 100);
}

TEST(Branching, IsTheSameOnTwoThreads) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const CompactSpace compact(space, kBudget);
    const PriceAscent root = short_ascent(compact, static_cast<double>(*least));
    Branching one(compact, root, static_cast<double>(*least));
    Branching two(compact, root, static_cast<double>(*least));
    for (int i = 0; i < 6; ++i) {
      one.grow(false, never_late);
      two.grow(true, never_late);
      ASSERT_EQ(one.bound(), two.bound()) << "seed " << seed;
      ASSERT_EQ(one.work(), two.work()) << "seed " << seed;
      ASSERT_EQ(one.choice(), two.choice()) << "seed " << seed;
    }
  }
}

// One node holds all or nothing, and the others what is left: what swings is that node.
TEST(ByteSwings, SplitsWhatPricesCannotDecide) {
  StrategySpace space;
  space.nodes = {{"small", {0, 1}}, {"large", {0, 100}}};
  space.memory = {{0, 0, 1, {2, 0}}, {1, 0, 1, {100, 0}}};
  const CompactSpace compact(space, 60);
  PriceAscent ascent(compact, {});
  ByteSwings swings(compact);
  for (int step = 0; step < 50; ++step) {
    ascent.step(100);
    swings.note(ascent);
  }
  const std::optional<ByteSwings::Split> split = swings.split(ascent);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->light, std::vector<std::size_t>{compact.offset(1) + 1});
  EXPECT_EQ(split->heavy, std::vector<std::size_t>{compact.offset(1)});
  const PriceAscent decided = ascent.without(std::vector<std::size_t>{compact.offset(0), compact.offset(1)});
  EXPECT_FALSE(swings.split(decided).has_value());
}

}  // namespace
}  // namespace meshwright
