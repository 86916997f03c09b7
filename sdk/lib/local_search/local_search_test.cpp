#include "local_search.h"

#include <gtest/gtest.h>

#include "meshwright/solver.h"

namespace meshwright {
namespace {

StrategySpace pair_space() {
  StrategySpace space;
  space.nodes = {{"a", {1, 10}}, {"b", {1, 2}}};
  space.tables = {{2, 2, {kForbidden, 0, 0, 0}}};
  space.edges = {{0, 1, 0}};
  space.memory = {{0, 0, 2, {80, 10}}, {1, 1, 3, {5, 20}}};
  return space;
}

TEST(LocalSearch, LeavesForbiddenChoices) {
  EXPECT_TRUE(evaluate(pair_space(), local_search(pair_space(), {0, 0}, kNoBudget)).allowed);
}

TEST(LocalSearch, ComesWithinTheBudgetBeforeItSavesCost) {
  const auto choice = local_search(pair_space(), {0, 1}, 40);
  EXPECT_LE(evaluate(pair_space(), choice).peak_bytes, 40);
}

TEST(LocalSearch, KeepsWhatCannotBeImproved) {
  EXPECT_EQ(local_search(pair_space(), {0, 1}, kNoBudget), (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace
}  // namespace meshwright
