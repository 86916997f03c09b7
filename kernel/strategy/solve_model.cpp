// The solvers that read a model: what stands in solver.h of problems, which are a later room's.
#include "meshwright/strategy.h"
#include "search/checked_answers.h"

namespace meshwright {

Result<std::vector<Assignment>> IntraSolver::solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                                         const SearchLimits& limits) const {
  const Problem& problem = model.problem;
  if (problem.variables.size() != problem.space.nodes.size() || problem.edges.size() != problem.space.edges.size()) {
    return bad_input("the search problem's space is not that of its variables and edges");
  }
  for (std::size_t i = 0; i < problem.variables.size(); ++i) {
    if (problem.variables[i].set->strategies.size() == problem.space.nodes[i].costs.size()) continue;
    return bad_input("the search problem's space has other strategies of '" + problem.variables[i].name + "' than its variable");
  }
  return checked_answers(problem.space, budgets, [&] { return do_solve_model(model, budgets, limits); });
}

Result<std::vector<Assignment>> IntraSolver::do_solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                                            const SearchLimits& limits) const {
  return do_solve(model.problem.space, budgets, limits);
}

}  // namespace meshwright
