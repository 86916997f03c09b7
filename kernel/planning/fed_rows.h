// Plans whose ranks feed their rows of the batch ([search] inputs = "rows", input_rows.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fitted_search.h"
#include "pins.h"

namespace meshwright {

// A problem in which inputs are taken as they are fed.
struct FedRows {
  StrategyFilter filter;
  Problem problem;
};

// Where the best plan wants some inputs otherwise than ranks feed them: `found` becomes the best one that takes them so, whose problem is returned, unless it is slower
// even so; then a note tells what is gathered. Errors: those of building and solving.
Result<std::optional<FedRows>> feed_rows(const FittedSolver& solver, const FittedSolver::Lower& lower, const ProblemInput& given, std::span<const Pin> pins,
                                         std::int64_t budget, FittedSearch& found);

}  // namespace meshwright
