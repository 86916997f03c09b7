#include "block_joins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

const Choice kOne(8, 1), kOther(8, 2);

TEST(BlockJoins, AreTheOnePlanUpToABlockAndThenTheOther) {
  // A variable each of four blocks, and one more of each that stands behind them all.
  const std::vector<std::uint32_t> blocks = {0, 1, 2, 3, 0, 1, 2, 3};
  const std::vector<Choice> joined = joined_at_cuts(blocks, kOne, kOther);
  EXPECT_THAT(joined, testing::UnorderedElementsAre(kOther, ElementsAre(1, 2, 2, 2, 1, 2, 2, 2), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2), ElementsAre(1, 1, 1, 2, 1, 1, 1, 2)));
}

TEST(BlockJoins, InTurnsLieNearToEachOther) {
  const std::vector<std::uint32_t> blocks = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<Choice> joined = joined_in_turns(blocks, kOne, kOther);
  EXPECT_EQ(joined.size(), 7U);
  EXPECT_THAT(joined, testing::Contains(ElementsAre(1, 2, 1, 2, 1, 2, 1, 2)));
  EXPECT_THAT(joined, testing::Contains(ElementsAre(1, 1, 1, 2, 1, 1, 1, 2)));
  for (const Choice& each : joined) EXPECT_THAT(each, testing::Each(testing::AnyOf(1, 2)));
}

TEST(BlockJoins, OfAPlanWithItselfAreThatPlan) {
  const std::vector<std::uint32_t> blocks = {0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_THAT(joined_at_cuts(blocks, kOne, kOne), ElementsAre(kOne));
  EXPECT_THAT(joined_in_turns(blocks, kOne, kOne), ElementsAre(kOne));
}

TEST(BlockJoins, OfAModelWithoutVariablesAreEmpty) {
  for (const std::vector<Choice>& joined : {joined_at_cuts({}, {}, {}), joined_in_turns({}, {}, {})}) EXPECT_THAT(joined, Each(IsEmpty()));
}

}  // namespace
}  // namespace meshwright
