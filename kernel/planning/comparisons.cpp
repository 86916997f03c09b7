#include "comparisons.h"

#include <utility>

namespace meshwright {

namespace {

Result<Comparison> split_by(const FittedSolver& solver, const PlanningContext& context, const Mesh& mesh, std::int64_t budget, std::string name, StrategyFilter filter) {
  Comparison comparison;
  comparison.name = std::move(name);
  const ProblemInput given{context, mesh, filter};
  Result<Problem> problem = build_problem(given);
  if (!problem && problem.error().code != ErrorCode::infeasible) return problem.error();
  if (!problem) {
    comparison.note = problem.error().message;
    return comparison;
  }
  Result<Assignment> answer = solver.solve(given, *problem, kNoBudget, kAnyWork);
  if (!answer) return answer.error();
  if (answer->choice.empty()) {
    comparison.note = answer->binding;
    return comparison;
  }
  comparison.objective_seconds = to_seconds(answer->cost);
  Result<FittedPlan> fitted = solver.fit(given, *problem, std::move(*answer), budget);
  if (!fitted) return fitted.error();
  comparison.peak_bytes = fitted->plan.peak_bytes;
  comparison.step_seconds = fitted->plan.step_seconds;
  if (solver.excess_bytes(fitted->plan, budget) > 0) comparison.note = "does not fit the budget";
  comparison.plan = std::move(fitted->plan);
  return comparison;
}

}  // namespace

Result<std::vector<Comparison>> usual_plans(const FittedSolver& solver, const PlanningContext& context, const Mesh& mesh, std::int64_t budget) {
  std::vector<Comparison> comparisons;
  if (mesh.rank() == 0) return comparisons;
  const std::uint32_t all = (1U << mesh.rank()) - 1, last = 1U << (mesh.rank() - 1);
  const std::string megatron = mesh.rank() > 1 ? "Megatron, data parallel over axes before the last" : "Megatron";
  for (const auto& [name, filter] : {std::pair(std::string("data parallel"), StrategyFilter{all, 0, ZeroStage::none}),
                                     std::pair(megatron, StrategyFilter{all & ~last, last, ZeroStage::none})}) {
    Result<Comparison> comparison = split_by(solver, context, mesh, budget, name, filter);
    if (!comparison) return comparison.error();
    comparisons.push_back(std::move(*comparison));
  }
  return comparisons;
}

}  // namespace meshwright
