#include "curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace meshwright {
namespace {

using Seconds = std::vector<double>;

TEST(NeverFalling, LeavesWhatRisesAsItIs) { EXPECT_EQ(never_falling({1, 2, 2, 5}), (Seconds{1, 2, 2, 5})); }

TEST(NeverFalling, PoolsNeighboursThatFallIntoTheirMean) {
  EXPECT_EQ(never_falling({1, 4, 2, 5}), (Seconds{1, 3, 3, 5}));
  EXPECT_EQ(never_falling({6, 3, 3}), (Seconds{4, 4, 4}));
  EXPECT_EQ(never_falling({}), Seconds{});
}

TEST(NeverFalling, PoolsAgainWhereAMeanFallsBelowWhatIsBefore) {
  EXPECT_EQ(never_falling({2, 3, 6, 1, 1}), (Seconds{2, 2.75, 2.75, 2.75, 2.75}));
  EXPECT_EQ(never_falling({5, 4, 3, 2, 1, 9}), (Seconds{3, 3, 3, 3, 3, 9}));
}

TEST(RisingCurve, GivesTheRatesOfSecondsThatRise) {
  const RateCurve curve = rising_curve({10, 100}, {1, 5});
  EXPECT_EQ(curve.sizes, (Seconds{10, 100}));
  EXPECT_EQ(curve.rates, (Seconds{10, 20}));
}

// A device's file has six digits.
TEST(RisingCurve, StillRisesWhenItsRatesAreRounded) {
  const RateCurve curve = rising_curve({3072, 12288, 49152, 196608}, {9e-7, 3e-7, 3e-7, 3e-7});
  ASSERT_EQ(curve.rates.size(), 4);
  const auto rounded = [](double rate, double share) { return rate * (1 + share * 5e-6); };
  for (std::size_t i = 1; i < curve.sizes.size(); ++i) {
    EXPECT_LT(curve.sizes[i - 1] / rounded(curve.rates[i - 1], -1), curve.sizes[i] / rounded(curve.rates[i], 1)) << i;
  }
}

}  // namespace
}  // namespace meshwright
