#include "smallest_budget.h"

#include <algorithm>
#include <utility>

#include "units.h"

namespace meshwright {

namespace {

constexpr double kLarger[] = {1, 1.02, 1.05, 1.1, 1.25};
constexpr int kSmaller = 4;
constexpr std::int64_t kNearPart = 4;  // smaller budgets are looked for within this part of the one that is known

}  // namespace

Result<std::optional<KnownBudget>> smallest_budget(const PlanWithin& plan_within, std::int64_t refused, std::int64_t known) {
  std::optional<KnownBudget> best;
  for (const double factor : kLarger) {
    const std::int64_t budget = written_size(static_cast<std::int64_t>(factor * static_cast<double>(known)));
    if (budget <= refused) continue;
    Result<std::optional<FittedPlan>> plan = plan_within(budget);
    if (!plan) return plan.error();
    if (*plan) {
      best = KnownBudget{budget, std::move(**plan)};
      break;
    }
    refused = budget;
  }
  if (!best) return best;
  refused = std::max(refused, best->bytes - best->bytes / kNearPart);
  for (int round = 0; round < kSmaller; ++round) {
    const std::int64_t between = written_size(refused + (best->bytes - refused) / 2);
    if (between >= best->bytes) break;
    Result<std::optional<FittedPlan>> plan = plan_within(between);
    if (!plan) return plan.error();
    if (*plan) best = KnownBudget{between, std::move(**plan)};
    else refused = between;
  }
  return best;
}

}  // namespace meshwright
