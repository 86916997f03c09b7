// Zheng et al. 2022, "Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep Learning" (§5.2): stages
// on meshes of a cluster, by the dynamic program F(s, k, d; t_max) (eq. 3) for each longest stage t_max that can be the
// best one's. Alpa tries them upwards and leaves out what is within ε of the one before; here they sink from one optimum to
// what could still be better, so that the answer is exact (decision 076).
#pragma once

#include "meshwright/placement.h"

namespace meshwright {

class Alpa final : public InterSolver {
  // Optimal, unless memory binds and there are more states than are held, or more work than is done: then heuristic, and
  // `method` says so.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;
};

}  // namespace meshwright
