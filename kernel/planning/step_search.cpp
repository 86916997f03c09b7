#include "step_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "distinct_plans.h"

namespace meshwright {

namespace {

double work_of_round(const StrategySpace& space) {
  double work = 2000 * static_cast<double>(space.nodes.size());  // most of which is the simulation
  for (const SpaceEdge& edge : space.edges) work += static_cast<double>(space.tables[edge.table].costs.size());
  return work;
}

}  // namespace

StepSearch::StepSearch(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget, FittedPlan best, Admits admits,
                       std::int64_t most_work)
    : solver_(solver),
      input_(input),
      problem_(problem),
      budget_(budget),
      most_work_(most_work),
      parts_(input, problem),
      blocks_(block_numbers(input, problem)),
      admits_(std::move(admits)),
      best_(std::move(best)),
      work_(work_of_round(problem.space)),
      averages_(parts_.places()) {
  averages_.add(parts_.of(best_.assignment.choice));
  simulated_.insert(best_.assignment.choice);
}

Status StepSearch::run_round() {
  const PathTable average = averages_.next();
  StrategySpace space = parts_.space(average);
  std::swap(space, problem_.space);
  Assignment without_budget;
  Result<Assignment> answer = leaves_out_fastest_ && binds_ ? solver_.solve(input_, problem_, budget_, most_work_) : solver_.assign(input_, problem_, budget_, most_work_, without_budget);
  std::swap(space, problem_.space);
  if (!answer) return answer.error();
  binds_ = binds_ || without_budget.peak_bytes > budget_;
  const auto seconds = [&, fixed = parts_.fixed_ticks(average)](TickSum least) { return (static_cast<double>(least) + fixed) / static_cast<double>(kTicksPerSecond); };
  bound_without_budget_seconds_ = std::max(bound_without_budget_seconds_, seconds(without_budget.lower_bound));
  if (answer->choice.empty()) {
    done_ = true;
    return Done{};
  }
  averages_.prove(average, seconds(std::max(answer->lower_bound, without_budget.lower_bound)));  // little work near the budget may prove less
  averages_.add(parts_.of(answer->choice));
  const Choice choice = answer->choice;
  if (Status status = simulate(std::move(*answer)); !status) return status;
  return join(best_.assignment.choice, choice);
}

Status StepSearch::run_rounds(int count) {
  for (int i = 0; i < count && !is_done(); ++i) {
    if (Status status = run_round(); !status) return status;
  }
  return Done{};
}

Status StepSearch::try_neighbours(const FittedPlan& plan, std::size_t count) {
  Result<std::vector<FittedPlan>> found = neighbouring_plans(solver_, input_, problem_, budget_, plan, count);
  if (!found) return found.error();
  for (FittedPlan& each : *found) {
    if (!simulated_.insert(each.assignment.choice).second) continue;
    averages_.add(parts_.of(each.assignment.choice));
    if (Status status = take(std::move(each)); !status) return status;
  }
  return Done{};
}

Status StepSearch::try_choices(std::span<const Choice> choices) {
  for (const Choice& choice : choices) {
    if (Status status = try_choice(choice); !status) return status;
  }
  return Done{};
}

Status StepSearch::join_best(std::span<const Choice> others) {
  for (const Choice& other : others) {
    if (Status status = join(best_.assignment.choice, other); !status) return status;
  }
  return Done{};
}

Status StepSearch::try_choice(const Choice& choice) {
  const Evaluation here = evaluate(problem_.space, choice);
  if (!here.allowed || here.peak_bytes > budget_) return Done{};
  averages_.add(parts_.of(choice));
  Assignment assignment = best_.assignment;
  assignment.choice = choice;
  return simulate(std::move(assignment));
}

// Of plans that are joined in one way, the one whose longest path is shortest.
Status StepSearch::join(Choice one, const Choice& other) {
  for (const std::vector<Choice>& joined : {joined_at_cuts(blocks_, one, other), joined_at_cuts(blocks_, other, one), joined_in_turns(blocks_, one, other)}) {
    double shortest = std::numeric_limits<double>::infinity();
    const Choice* found = nullptr;
    for (const Choice& each : joined) {
      if (!evaluate(problem_.space, each).allowed) continue;
      const PathTable table = parts_.of(each);
      const double here = length(table, longest_path(parts_.places(), table));
      if (here < shortest) shortest = here, found = &each;
    }
    if (found == nullptr) continue;
    Assignment assignment = best_.assignment;
    assignment.choice = *found;
    if (Status status = simulate(std::move(assignment)); !status) return status;
  }
  return Done{};
}

// No step is shorter than its longest path.
bool StepSearch::may_be_shorter(const PathTable& table) const {
  return length(table, longest_path(parts_.places(), table)) < best_.plan.step_seconds * static_cast<double>(kTicksPerSecond);
}

Status StepSearch::simulate(Assignment found) {
  if (!simulated_.insert(found.choice).second || !may_be_shorter(parts_.of(found.choice))) return Done{};
  const Evaluation by_objective = evaluate(problem_.space, found.choice);
  found.cost = by_objective.cost;
  found.peak_bytes = by_objective.peak_bytes;
  Result<std::optional<FittedPlan>> fitted = solver_.fit_shorter(input_, problem_, std::move(found), budget_, best_.plan.step_seconds);
  if (!fitted) return fitted.error();
  return *fitted ? take(std::move(**fitted)) : Status(Done{});
}

Status StepSearch::take(FittedPlan fitted) {
  if (!solver_.is_within(fitted, budget_) || fitted.plan.step_seconds >= best_.plan.step_seconds) return Done{};
  const Result<bool> admitted = admits_ ? admits_(fitted) : Result<bool>(true);
  if (!admitted) return admitted.error();
  if (!*admitted) return Done{};
  fitted.assignment.lower_bound = best_.assignment.lower_bound;
  fitted.plan.lower_bound_seconds = best_.plan.lower_bound_seconds;
  best_ = std::move(fitted);
  return Done{};
}

Status run_rounds(std::span<StepSearch* const> searches, double count, double least_work) {
  double left = 0, shortest = std::numeric_limits<double>::infinity();
  for (const StepSearch* each : searches) {
    left += count * each->work();
    shortest = std::min(shortest, each->best().plan.step_seconds);
  }
  left = std::max(left, least_work);
  while (left > 0) {
    StepSearch* next = nullptr;
    for (StepSearch* each : searches) {
      if (each->is_done() || each->bound_seconds() >= (1 - kOptimalGap) * shortest) continue;
      if (next == nullptr || each->bound_seconds() < next->bound_seconds()) next = each;
    }
    if (next == nullptr) break;
    left -= next->work();
    if (Status status = next->run_round(); !status) return status;
    shortest = std::min(shortest, next->best().plan.step_seconds);
  }
  return Done{};
}

}  // namespace meshwright
