// What every answer of a solver goes through.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "meshwright/solver.h"

namespace meshwright {

// Budgets of any solver: there is one at least, none is negative, and they ascend. Error: bad_input.
Status check_budgets(std::span<const std::int64_t> budgets);

using Ask = std::function<Result<std::vector<Assignment>>()>;

// What `ask`, a solver's own function, answers, between the checks of what it is asked and of what it says.
Result<std::vector<Assignment>> checked_answers(const StrategySpace& space, std::span<const std::int64_t> budgets, const Ask& ask);

}  // namespace meshwright
