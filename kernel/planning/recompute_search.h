// How many of a model's blocks run again for their backward ([search] recompute = "blocks"): the first so many, since what they keep is held longest.
//
// With more of them less is held, and more is computed; in between, the budget asks for shardings that cost more. So the time falls and then rises with the number,
// and a few searches find about where it turns: with no block, with all, where by interpolation the budget stops to bind, and two between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "pins.h"

namespace meshwright {

struct RecomputeSearch {
  std::vector<std::string> recomputed;  // ProblemInput::recomputed of what follows
  Problem problem;
  FittedSearch found;  // Its bound holds for any number of blocks.
};

// Makes the bound of a search hold for any number of blocks: what is made again costs time, so none has a plan below the best one of no block and no budget.
void bound_any_number(const Assignment& without_budget, FittedSearch& found);

// The best of these searches, if it is better than `without`, the search of `input` with no block: by the simulated step, or the objective where there is none. If
// no plan is found, the search with all blocks, which says what holds the least. Nothing where no budget binds, or the model has no such blocks. `input` is that of
// `without`, and names no blocks. Errors: those of building, solving and lowering.
Result<std::optional<RecomputeSearch>> search_recomputed(const FittedSolver& solver, const ProblemInput& input, std::span<const Pin> pins, std::int64_t budget,
                                                         const FittedSearch& without);

}  // namespace meshwright
