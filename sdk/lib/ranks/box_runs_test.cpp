#include "box_runs.h"

#include <gtest/gtest.h>

#include <tuple>

namespace meshwright {
namespace {

using Runs = std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>;

Runs runs(const Box& a, const Box& b) {
  Runs found;
  for_each_run(a, b, intersect(a, b),
               [&](std::size_t in_a, std::size_t in_b, std::size_t count) { found.emplace_back(in_a, in_b, count); });
  return found;
}

TEST(BoxRuns, CopiesRowsOfAMatrix) {
  EXPECT_EQ(runs({{0, 0}, {3, 4}}, {{1, 2}, {2, 2}}), (Runs{{6, 0, 2}, {10, 2, 2}}));
}

TEST(BoxRuns, JoinsWhatIsWholeInBoth) {
  EXPECT_EQ(runs({{0, 0, 0}, {2, 3, 4}}, {{1, 0, 0}, {1, 3, 4}}), (Runs{{12, 0, 12}}));
  EXPECT_EQ(runs({{0, 0, 0}, {2, 3, 4}}, {{0, 1, 0}, {2, 2, 4}}), (Runs{{4, 0, 8}, {16, 8, 8}}));
}

TEST(BoxRuns, AScalarIsOneRun) { EXPECT_EQ(runs({{}, {}}, {{}, {}}), (Runs{{0, 0, 1}})); }

TEST(BoxRuns, NothingInCommonIsNoRun) { EXPECT_TRUE(runs({{0}, {4}}, {{4}, {4}}).empty()); }

}  // namespace
}  // namespace meshwright
