#include "smallest_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace meshwright {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// Plans from a budget on.
class PlansFrom {
 public:
  explicit PlansFrom(std::int64_t least) : least_(least) {}

  Result<std::optional<KnownBudget>> search(std::int64_t refused, std::int64_t known) {
    return smallest_budget(
        [this](std::int64_t budget, std::int64_t) -> Result<std::optional<FittedPlan>> {
          tried.push_back(budget);
          if (budget < least_) return std::optional<FittedPlan>();
          FittedPlan plan;
          plan.plan.peak_bytes = least_;
          return std::optional<FittedPlan>(std::move(plan));
        },
        refused, known);
  }

  std::vector<std::int64_t> tried;

 private:
  std::int64_t least_;
};

TEST(SmallestBudget, IsBelowWhatIsKnownWhereAPlanIsFoundThere) {
  PlansFrom plans(460 * kMebibyte);
  const auto found = plans.search(kMebibyte, 490 * kMebibyte);
  ASSERT_TRUE(found && *found);
  EXPECT_GE((*found)->bytes, 460 * kMebibyte);
  EXPECT_LE((*found)->bytes, 470 * kMebibyte);
  EXPECT_EQ((*found)->plan.plan.peak_bytes, 460 * kMebibyte);
  for (const std::int64_t budget : plans.tried) EXPECT_EQ(budget % kMebibyte, 0) << "can be asked for as it is written";
}

TEST(SmallestBudget, IsAboveWhatIsKnownWhereThatIsNotFoundAgain) {
  PlansFrom plans(500 * kMebibyte);
  const auto found = plans.search(480 * kMebibyte, 490 * kMebibyte);
  ASSERT_TRUE(found && *found);
  EXPECT_GE((*found)->bytes, 500 * kMebibyte);
  EXPECT_LE((*found)->bytes, 515 * kMebibyte);
}

TEST(SmallestBudget, IsNothingWhereNoPlanIsFound) {
  PlansFrom plans(900 * kMebibyte);
  const auto found = plans.search(480 * kMebibyte, 490 * kMebibyte);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  for (const std::int64_t budget : plans.tried) EXPECT_GT(budget, 480 * kMebibyte);
}

}  // namespace
}  // namespace meshwright
