// Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training" (§3.1): stages and their
// replicas on one level of a network, by the dynamic program A(j, m) over what is done and the devices that do it. Where
// a model is no chain, what is done is a downset of its graph.
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class PipeDream final : public InterSolver {
  // Optimal, unless the graph has more downsets than are held: then stages along one order of the nodes are tried alone,
  // and the answer is heuristic. Networks of several levels are not known to the problem.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
