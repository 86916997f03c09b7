// Fan et al. 2021, "DAPPLE: A Pipelined Data Parallel Approach for Training Large Models" (§4.1): stages and their replicas
// by the latency of a pipeline, which its pivot stage decides. Their planner keeps one partial plan for what is before a
// place; here all that none is better than are kept, as many as there is room for (decision 076).
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class Dapple final : public InterSolver {
  // Optimal where no partial list of stages had to be left out; else heuristic, and `method` says so.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
