// Parts of a problem in which people plan by hand: data parallelism along all axes, or along all but the last, with ZeRO or without; `thorough`ly, along each axis by itself too.
//
// An average of paths weighs a whole model at once, and where two ways of computing are nearly as good it leads a search of all of them past plans that keep
// to one. A part is small, and searched by the step with an average of its own. What is found is as good a plan of the whole problem as any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block_joins.h"
#include "fitted_search.h"
#include "pins.h"

namespace meshwright {

// Choices of the whole problem, one for each part in which a plan was found.
struct ChoicesByHand {
  std::vector<Choice> by_step;  // that with the shortest step, in an order in which neighbours have most in common
  std::vector<Choice> by_objective;
};

// Of `problem`, which was built from `input` and pinned. A part that the pins or the filter exclude, or of which no plan within the budget is found with little
// work, has none. Each is searched once by its objective and in so many rounds of StepSearch. Errors: those of solving and lowering.
Result<ChoicesByHand> choices_by_hand(const FittedSolver& solver, const ProblemInput& input, const Problem& problem, std::span<const Pin> pins,
                                      std::int64_t budget, int rounds, bool thorough);

}  // namespace meshwright
