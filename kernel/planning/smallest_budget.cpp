#include "smallest_budget.h"

#include <algorithm>
#include <utility>

#include "units.h"

namespace meshwright {

namespace {

constexpr double kLarger[] = {1, 1.02, 1.05, 1.1, 1.25};
constexpr int kSmaller = 4;
constexpr std::int64_t kNearPart = 4;  // smaller budgets are looked for within this part of the one that is known

constexpr std::int64_t kWorkOfTry = 20'000'000, kWorkOfNamed = 1'000'000'000;

// The first of these parts of a budget that has a plan; what is refused rises to those before it.
Result<std::optional<KnownBudget>> first_of_larger(const PlanWithin& plan_within, std::int64_t known, std::int64_t most_work, std::int64_t& refused) {
  for (const double factor : kLarger) {
    const std::int64_t budget = written_size(static_cast<std::int64_t>(factor * static_cast<double>(known)));
    if (budget <= refused) continue;
    Result<std::optional<FittedPlan>> plan = plan_within(budget, most_work);
    if (!plan) return plan.error();
    if (*plan) return std::optional(KnownBudget{budget, std::move(**plan)});
    refused = budget;
  }
  return std::optional<KnownBudget>();
}

}  // namespace

Result<std::optional<KnownBudget>> smallest_budget(const PlanWithin& plan_within, std::int64_t refused, std::int64_t known) {
  Result<std::optional<KnownBudget>> first = first_of_larger(plan_within, known, kWorkOfTry, refused);
  if (!first || !*first) return first;
  std::int64_t least = (*first)->bytes;
  refused = std::max(refused, least - least / kNearPart);
  for (int round = 0; round < kSmaller; ++round) {
    const std::int64_t between = written_size(refused + (least - refused) / 2);
    if (between >= least) break;
    const Result<std::optional<FittedPlan>> plan = plan_within(between, kWorkOfTry);
    if (!plan) return plan.error();
    (*plan ? least : refused) = between;
  }
  return first_of_larger(plan_within, least, kWorkOfNamed, refused);
}

}  // namespace meshwright
