// Tries every combination: the oracle that other solvers are held against. It shares no code with them, and prunes
// nothing but forbidden costs.
#pragma once

#include "meshwright/solver.h"

namespace meshwright {

class Exhaustive final : public IntraSolver {
  // Errors: bad_input if there are more combinations than `limits.work_limit`; it says how many.
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;
};

}  // namespace meshwright
