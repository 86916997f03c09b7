// The second best distinct plan, and how wrong the cost model would have to be for it to win.
#pragma once

#include <vector>

#include "fitted_search.h"
#include "meshwright/cluster.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"
#include "meshwright/runner_up.h"

namespace meshwright {

// Of plans that are distinct from `plan`, the one with the shortest simulated step. Those without a program are left out, and so
// are those whose step is the same tick by tick: they do the same on other axes, or what they do otherwise takes no time. Null:
// there is none.
const FittedPlan* runner_up_among(const std::vector<const FittedPlan*>& candidates, const Plan& plan);

// What a plan says of its runner-up; both have programs, and are of the context's model and the cluster. Errors: those of lowering
// and of break_evens.
Result<RunnerUp> describe_runner_up(const Cluster& cluster, const PlanningContext& context, const FittedSolver::Lower& lower, const Plan& plan,
                                    const Plan& runner_up);

}  // namespace meshwright
