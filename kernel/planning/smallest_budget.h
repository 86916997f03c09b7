// The smallest budget for which a plan is known: what a refusal names. Nothing proves that a smaller one has none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "fitted_search.h"

namespace meshwright {

// What planning finds within a budget, by all settings and with so much work of a search of layouts; nothing if that is none.
using PlanWithin = std::function<Result<std::optional<FittedPlan>>(std::int64_t budget, std::int64_t most_work)>;

struct KnownBudget {
  std::int64_t bytes = 0;  // as size_text writes it
  FittedPlan plan;
};

// Tries a few budgets from `known` on, what some plan holds, with little work: larger ones until one has a plan, and then smaller ones between,
// which are more than `refused`. What it names was then tried with much more, so whoever asks for it gets a plan. Nothing if none of them has one.
// Errors: those of `plan_within`.
Result<std::optional<KnownBudget>> smallest_budget(const PlanWithin& plan_within, std::int64_t refused, std::int64_t known);

}  // namespace meshwright
