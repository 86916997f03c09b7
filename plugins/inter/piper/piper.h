// Tarnawski et al. 2021, "Piper: Multidimensional Planner for DNN Parallelization": stages, replicas, degrees of
// tensor parallelism, and how each layer runs. Their dynamic program has a table over downsets, devices and replicas;
// here time is guessed and devices are counted, so that the table is one dimension less (decision 059). Where memory
// binds, their program picks how layers run greedily; here the choice is exact.
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class Piper final : public InterSolver {
  // Optimal, unless the graph has more downsets than are held, or a stage more ways to run than are held: then
  // heuristic, and `method` says so.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
