#include "join.h"

#include <gtest/gtest.h>

#include <random>

namespace meshwright::elimination {
namespace {

// A scope of 3 x 4 x 2 x 5 with tables whose dimensions stand in any order, against plain loops.
TEST(Join, AgreesWithPlainLoopsForAnyOrderOfDimensions) {
  std::mt19937_64 random(7);
  const std::vector<std::size_t> domains = {3, 4, 2, 5};
  const std::vector<std::vector<std::uint32_t>> positions = {{0}, {3, 0}, {0, 3}, {2, 1}, {3, 1, 0}, {1, 2, 3}};
  std::vector<std::vector<Ticks>> tables;
  for (const auto& of_table : positions) {
    std::size_t count = 1;
    for (const std::uint32_t position : of_table) count *= domains[position];
    std::vector<Ticks>& values = tables.emplace_back(count);
    for (Ticks& value : values) value = random() % 7 == 0 ? kForbidden : static_cast<Ticks>(random() % 100);
  }
  for (std::size_t used = 1; used <= tables.size(); ++used) {
    JoinInput input{domains, {}};
    for (std::size_t t = 0; t < used; ++t) input.tables.push_back({&tables[t], &positions[t]});
    std::vector<Ticks> expected;
    std::vector<Ticks> expected_least(4 * 2 * 5, kForbidden);
    std::size_t digits[4];
    for (digits[0] = 0; digits[0] < 3; ++digits[0]) {
      for (digits[1] = 0; digits[1] < 4; ++digits[1]) {
        for (digits[2] = 0; digits[2] < 2; ++digits[2]) {
          for (digits[3] = 0; digits[3] < 5; ++digits[3]) {
            Ticks sum = 0;
            for (std::size_t t = 0; t < used; ++t) {
              std::size_t index = 0;
              for (const std::uint32_t position : positions[t]) index = index * domains[position] + digits[position];
              sum = std::min(kForbidden, sum + tables[t][index]);
            }
            expected.push_back(sum);
            Ticks& least = expected_least[(digits[1] * 2 + digits[2]) * 5 + digits[3]];
            least = std::min(least, sum);
          }
        }
      }
    }
    EXPECT_EQ(join(input), expected) << used;
    EXPECT_EQ(join_and_minimize(input), expected_least) << used;
  }
}

TEST(Join, MinimizesAVariableThatStandsAlone) {
  const std::vector<Ticks> costs = {5, 3, kForbidden};
  const std::vector<std::uint32_t> alone = {0};
  EXPECT_EQ(join_and_minimize({{3}, {{&costs, &alone}}}), (std::vector<Ticks>{3}));
}

TEST(Project, KeepsDimensionsInTheOrderGiven) {
  const std::vector<Ticks> table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0};  // 2 x 3 x 2
  EXPECT_EQ(project(table, {2, 3, 2}, {0}), (std::vector<Ticks>{1, 0}));
  EXPECT_EQ(project(table, {2, 3, 2}, {2, 0}), (std::vector<Ticks>{1, 7, 2, 0}));
  EXPECT_EQ(project(table, {2, 3, 2}, {1}), (std::vector<Ticks>{1, 3, 0}));
}

}  // namespace
}  // namespace meshwright::elimination
