#include "wished_stage.h"

#include <utility>

#include "search_settings.h"
#include "stopwatch.h"

namespace meshwright {

namespace {

MeshTrial without_plan(const std::string& mesh) {
  MeshTrial trial;
  trial.mesh = mesh;
  trial.status = SolveStatus::heuristic;
  trial.binding = "no plan that fits was put together of what is known of the model's parts, though none is proven impossible";
  return trial;
}

MeshTrial trial_of(const FittedPlan& fitted) {
  MeshTrial trial;
  trial.mesh = to_string(fitted.plan.mesh);
  trial.status = SolveStatus::heuristic;
  trial.objective_seconds = fitted.plan.objective_seconds;
  trial.step_seconds = fitted.plan.step_seconds;
  trial.peak_bytes = fitted.plan.peak_bytes;
  return trial;
}

}  // namespace

Result<PlanRanking> rank_wished(const PlanRequest& request, const StageCutWish::Stage& wish) {
  const Config search = wish.batch_first ? with_batch_first(request.search) : request.search;
  Stopwatch watch;
  std::optional<FittedPlan> assembled;
  if (wish.assemble) {
    const FittedSolver solver = fitted_solver(request.solver, search, request.lower, DeviceMemory{&request.cluster, request.must_fit_device});
    Result<std::optional<FittedPlan>> made = wish.assemble(request.context, solver, request.budget_bytes);
    if (!made) return made.error();
    assembled = std::move(*made);
  }
  const double seconds = watch.lap();
  PlanRanking ranking;
  if (!wish.assemble || wish.searched) {
    Result<PlanRanking> found = rank_plans({request.context, request.cluster, request.solver, search, request.lower, request.checkpoint, request.pins, wish.mesh, request.budget_bytes, request.must_fit_device,
                                            request.top, request.explain, request.usual, request.name_budget});
    if (!found) return found;
    ranking = std::move(*found);
  }
  ranking.search_seconds += seconds;
  const bool is_better = assembled && (ranking.plans.empty() || assembled->plan.step_seconds < ranking.plans.front().fitted.plan.step_seconds);
  if (!assembled && ranking.trials.empty()) ranking.trials.push_back(without_plan(wish.mesh));
  if (!is_better) return ranking;
  // What the search has proven of a shorter step holds for this plan too.
  if (!ranking.plans.empty()) assembled->plan.step_lower_bound_seconds = ranking.plans.front().fitted.plan.step_lower_bound_seconds;
  if (ranking.trials.empty()) ranking.trials.push_back(trial_of(*assembled));
  const std::size_t variables = assembled->assignment.choice.size();
  ranking.plans.clear();
  ranking.plans.push_back({std::move(*assembled), variables, 0});
  return ranking;
}

}  // namespace meshwright
