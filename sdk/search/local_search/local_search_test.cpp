#include "local_search.h"

#include <gtest/gtest.h>

#include "meshwright/solver.h"
#include "pair_space.h"

namespace meshwright {
namespace {

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
