#include "runner_up.h"

#include <utility>

#include "break_even.h"
#include "distinct_plans.h"

namespace meshwright {

const FittedPlan* runner_up_among(const std::vector<const FittedPlan*>& candidates, const Plan& plan) {
  const FittedPlan* best = nullptr;
  for (const FittedPlan* candidate : candidates) {
    if (!candidate->no_program.empty() || candidate->plan.step_seconds == plan.step_seconds) continue;
    if (best == nullptr || candidate->plan.step_seconds < best->plan.step_seconds) best = candidate;
  }
  return best;
}

Result<RunnerUp> describe_runner_up(const Cluster& cluster, const PlanningContext& context, const FittedSolver::Lower& lower, const Plan& plan,
                                    const Plan& runner_up) {
  RunnerUp described{to_string(runner_up.mesh), runner_up.objective_seconds, runner_up.step_seconds, {}, {}};
  if (described.mesh == to_string(plan.mesh)) described.differences = differences(runner_up, plan);
  Result<Program> first = lower(plan), second = lower(runner_up);
  if (!first) return first.error();
  if (!second) return second.error();
  Result<std::vector<BreakEven>> found = break_evens(cluster, context.profile, context.ops, std::move(*first), std::move(*second));
  if (!found) return found.error();
  described.break_evens = std::move(*found);
  return described;
}

}  // namespace meshwright
