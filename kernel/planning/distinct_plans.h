// The best plans of one mesh that differ in more than a detail (`plan --top`).
//
// Two plans are distinct if some kind of weight is treated otherwise in every layer: either the ops that compute with it
// share their work in another way, or it is computed with, kept or updated in other layouts. A kind of weight are the
// parameters of two dimensions and more whose names differ in one number only and that have the same strategies; it counts
// if it is a fiftieth of all weights or more. What follows from them (activations, biases, when a weight is gathered) is
// chosen best, and is no difference by itself; nor is another mesh axis of the same size and speed.
//
// Regions of the space are searched best first, each being what is left once the treatments of earlier plans are
// forbidden to some kinds (Lawler 1972, after Murty 1968). So the plans are the best ones as far as the solver is exact.
#pragma once

#include <string>
#include <vector>

#include "fitted_search.h"

namespace meshwright {

struct DistinctPlans {
  std::vector<FittedPlan> plans;  // by objective; the first is the one that was given
  bool cut_off = false;           // there may be more: too many regions were searched
};

// At most `count` of them within the budget, those that cost at least `too_much` left out. `best` is the best of all,
// and its bound is that of the others. `problem` is as it was when this returns. Errors: those of solving and lowering.
Result<DistinctPlans> distinct_plans(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget,
                                     FittedPlan best, std::size_t count, TickSum too_much);

inline constexpr std::size_t kNeighbours = 2;  // of a best plan, that are simulated

// Plans near `best` that are distinct from it, at most `count` of them, by objective: for each kind of weight, and for each kind of
// ops that compute with one, the best plan in which that kind is treated otherwise and all variables stay that are more than two
// edges of the problem away from it. A few small searches where distinct_plans needs whole ones, so a distinct plan may be better
// than all of these; those that don't fit the budget are left out, and those whose objective is that of `best`. `problem` is as it was when this returns. Errors: as above.
Result<std::vector<FittedPlan>> neighbouring_plans(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget,
                                                   const FittedPlan& best, std::size_t count);

// What a plan treats otherwise than another plan of the same model and mesh: "layers.{0-11}.mlp.up.weight R from S1".
std::vector<std::string> differences(const Plan& plan, const Plan& other);

}  // namespace meshwright
