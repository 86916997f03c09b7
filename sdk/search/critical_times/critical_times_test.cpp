#include "critical_times.h"

#include <gtest/gtest.h>

#include <random>

namespace meshwright {
namespace {

StrategySpace random_space(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&random](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  StrategySpace space;
  space.fixed_bytes = draw(4);
  const int nodes = 3 + draw(4);
  for (int id = 0; id < nodes; ++id) {
    space.nodes.push_back({std::to_string(id), {0, 1}});
    for (int terms = draw(3); terms > 0; --terms) {
      const int begin = draw(12);
      space.memory.push_back({static_cast<std::uint32_t>(id), begin, begin + 1 + draw(5), {draw(8), draw(8)}});
    }
  }
  return space;
}

TEST(CriticalTimes, KeepWhichChoicesFit) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const StrategySpace space = random_space(seed);
    for (const std::int64_t budget : {0, 4, 8, 12, 16, 24}) {
      const StrategySpace critical = keep_critical_times(space, budget).space;
      ASSERT_TRUE(validate(critical).ok());
      for (std::uint32_t bits = 0; bits < (1U << space.nodes.size()); ++bits) {
        std::vector<std::uint32_t> choice;
        for (std::size_t id = 0; id < space.nodes.size(); ++id) choice.push_back((bits >> id) & 1U);
        const bool fits = evaluate(space, choice).peak_bytes <= budget;
        choice.push_back(0);
        // Where the budget can't bind nothing is left to hold.
        ASSERT_EQ(evaluate(critical, choice).peak_bytes <= budget, fits) << "seed " << seed << ", budget " << budget;
      }
    }
  }
}

TEST(CriticalTimes, DropPointsThatAnotherOneCovers) {
  StrategySpace space;
  space.nodes = {{"a", {0, 0}}, {"b", {0, 0}}, {"c", {0, 0}}};
  space.memory = {{0, 0, 30, {1, 9}}, {1, 10, 20, {1, 9}}, {2, 40, 50, {1, 5}}};
  const CriticalSpace kept = keep_critical_times(space, 8);
  EXPECT_EQ(kept.times, std::vector<std::int32_t>{10});
  const StrategySpace& critical = kept.space;
  // Only [10, 20), where a and b are live; c alone can't exceed the budget.
  ASSERT_EQ(critical.memory.size(), 3U);
  for (const MemoryTerm& term : critical.memory) EXPECT_EQ(std::pair(term.begin, term.end), std::pair(0, 1));
  EXPECT_EQ(critical.memory[0].bytes, std::vector<std::int64_t>{2});
  EXPECT_EQ(critical.memory[1].bytes, (std::vector<std::int64_t>{0, 8}));
}

}  // namespace
}  // namespace meshwright
