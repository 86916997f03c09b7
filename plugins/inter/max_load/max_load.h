// Tarnawski et al. 2020, "Efficient Algorithms for Device Placement of DNN Graph Operators": the least largest load
// of contiguous stages, by a dynamic program over the ideals of the graph. Their program looks at every pair of
// ideals for every number of devices; here a bound on the objective is guessed, from below, and only pairs and numbers
// of devices that could stay below it are looked at (decision 059). Stages that are not contiguous are not searched.
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class MaxLoad final : public InterSolver {
  // Optimal, unless the graph has more ideals than the search holds, or the search takes more steps than it may: then
  // heuristic, and `method` says so.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
