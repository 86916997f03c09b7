#include "plan_status.h"

#include <algorithm>

#include "step_search.h"

namespace meshwright {

void state_by_objective(Plan& plan) {
  if (plan.lower_bound_seconds <= 0) plan.status = SolveStatus::heuristic;
  else if (plan.status == SolveStatus::optimal && plan.lower_bound_seconds < plan.objective_seconds) plan.status = SolveStatus::bounded;
}

void state_by_step(Plan& plan, double bound) {
  plan.step_lower_bound_seconds = std::min(bound, plan.step_seconds);
  if (bound <= 0) plan.status = SolveStatus::heuristic;
  else plan.status = bound >= (1 - kOptimalGap) * plan.step_seconds ? SolveStatus::optimal : SolveStatus::bounded;
}

}  // namespace meshwright
