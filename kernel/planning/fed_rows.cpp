#include "fed_rows.h"

#include <utility>

#include "input_rows.h"
#include "units.h"

namespace meshwright {

Result<std::optional<FedRows>> feed_rows(const FittedSolver& solver, const FittedSolver::Lower& lower, const ProblemInput& given, std::span<const Pin> pins,
                                         std::int64_t budget, FittedSearch& found) {
  Result<Program> program = lower(found.best->plan);
  if (!program) return std::optional<FedRows>();  // the plan has a note that says why there is none
  const InputRows rows = input_rows(*program);
  if (rows.gather_seconds == 0) return std::optional<FedRows>();
  ProblemInput fed = given;
  fed.filter.batch_axes |= rows.axes & ~fed.filter.context_axes;
  fed.filter.sharded_weight_axes &= ~rows.axes;
  Result<Problem> other = build_pinned(fed, pins);
  if (!other && other.error().code != ErrorCode::infeasible) return other.error();
  if (other) {
    Result<FittedSearch> second = solver.search(fed, *other, budget);
    if (!second) return second.error();
    if (second->best && to_seconds(second->best->assignment.cost) < to_seconds(found.best->assignment.cost) + rows.gather_seconds) {
      second->lower_bound_seconds = second->best->plan.lower_bound_seconds = found.lower_bound_seconds;
      second->status = second->best->plan.status = SolveStatus::bounded;
      found = std::move(*second);
      return std::optional<FedRows>({fed.filter, std::move(*other)});
    }
  }
  found.best->plan.notes.push_back("Ranks that feed their rows of the batch gather inputs for " + milliseconds(rows.gather_seconds) + " before the step, which no figure here counts.");
  return std::optional<FedRows>();
}

}  // namespace meshwright
