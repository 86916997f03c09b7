// Mirhoseini et al. 2017, "Device Placement Optimization with Reinforcement Learning" (ICML): placements are drawn from a policy, and the policy learns from what they cost.
//
// The policy's parameters go down the gradient of J(θ) = E[R(P)], P being a placement that the policy draws (§3.1, equations 1 and 2), which K placements of each step estimate (equation 3, REINFORCE, Williams 1992):
//
//   ∇J(θ) ≈ 1/K Σ_i (R(P_i) − B) ∇ log p(P_i; θ)
//
// R is the square root of a placement's time, as in the paper, so that very slow placements do not outweigh all others; the time is a LoadProblem's largest load where the paper runs the placement. B is a moving average of
// R. A placement that breaks a rule has a constant, large R; most can't (placement_draw.h). The policy is not the paper's network (placement_policy.h), and pieces are those of the problem, not what the authors
// colocate. The answer is the best placement of all that were drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/placement.h"

namespace meshwright {

struct ReinforceSettings {
  std::uint64_t seed = 0;
  std::int64_t steps = 500;   // of the policy's parameters
  std::int64_t samples = 10;  // placements for each: K
};

struct ReinforceFound {
  double first_load = 0;  // seconds, of the first placement that keeps the rules
  double best_load = 0;   // of the stages
  std::int64_t drawn = 0;
  std::int64_t broken = 0;  // of them: those that break a rule
  bool ended_early = false;  // the problem is too large for all that were asked for
  std::vector<PlacementStage> stages;  // empty if none keeps the rules
};

// Of a valid problem, and the same on each run with a seed. Numbers come from SplitMix64, and no distribution of the standard library is used.
ReinforceFound reinforce(const LoadProblem& problem, const ReinforceSettings& settings);

class Reinforce final : public InterSolver {
 public:
  explicit Reinforce(const ReinforceSettings& settings) : settings_(settings) {}

 private:
  // Heuristic, always; infeasible only where no stages at all can keep the rules. Errors: bad_input too where none that was drawn does, and nothing proves that there are none.
  Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const override;

  ReinforceSettings settings_;
};

}  // namespace meshwright
