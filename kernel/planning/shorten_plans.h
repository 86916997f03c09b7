// Layouts of several plans of one mesh, in which different things run again, searched further by the step (step_search.h).
#pragma once

#include <vector>

#include "recompute_search.h"

namespace meshwright {

// Two thirds of the rounds that the wish has, since it is to be seen which one is the shortest; after a few of each, those that are not near stay as they are. Errors: those of
// solving and lowering.
Status shorten_plans(const FittedSolver& solver, const RecomputeWish& wish, std::vector<RecomputeSearch>& plans);

// The step of a plan after those few rounds. Errors: as above.
Result<double> seconds_shortened(const FittedSolver& solver, const RecomputeWish& wish, RecomputeSearch plan);

}  // namespace meshwright
