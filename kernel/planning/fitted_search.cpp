#include "fitted_search.h"

#include <algorithm>
#include <utility>

#include "plan_notes.h"
#include "search_settings.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMostBuckets = 16;  // in the place of one
constexpr double kAnyStep = std::numeric_limits<double>::infinity();
constexpr double kWorthRoom = 0.001;       // of the step, in which computing waits for communication
// Near the least that any plan holds an exact search takes long. The bound is that of the first one: those behind it have half as much
// work each time. And a refusal names any small plan.
constexpr std::int64_t kWorkAgain = 1'000'000'000, kWorkForSmallest = 50'000'000;

void keep_smaller(std::optional<FittedPlan>& smallest, FittedPlan plan) {
  if (!smallest || plan.plan.peak_bytes < smallest->plan.peak_bytes) smallest = std::move(plan);
}

// The time line in the buckets that make the step shortest, which the program has then. Smaller ones travel sooner and pay more latency: halves, as
// long as they help.
Result<Timeline> in_best_buckets(Program& program, const ProblemInput& input) {
  const Result<BucketTimelines> timelines = BucketTimelines::make(program, works_of(program, input.ops), input.profile);
  if (!timelines) return timelines.error();
  Result<Timeline> best = timelines->draw();
  const std::int64_t whole = program.bucket_bytes;
  for (std::int64_t bytes = std::min(whole, input.profile.parameter_bytes) / 2; best && bytes >= whole / kMostBuckets; bytes /= 2) {
    const std::int64_t before = std::exchange(program.bucket_bytes, bytes);
    Result<Timeline> smaller = timelines->draw();
    if (smaller && smaller->step_seconds >= best->step_seconds) {
      program.bucket_bytes = before;
      break;
    }
    best = std::move(smaller);
  }
  return best;
}

}  // namespace

Result<FittedPlan> FittedSolver::fit(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget, double wanted_seconds) const {
  Result<std::optional<FittedPlan>> fitted = fit(input, problem, std::move(assignment), budget, wanted_seconds, Wanted::any);
  if (!fitted) return fitted.error();
  known_->refuse(KnownFits::key_of(input, problem, (*fitted)->assignment.choice, budget), std::min(wanted_seconds, is_within(**fitted, budget) ? (*fitted)->plan.step_seconds : kAnyStep));
  return std::move(**fitted);
}

Result<FittedPlan> FittedSolver::fit_within(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget) const {
  Result<std::optional<FittedPlan>> fitted = fit(input, problem, std::move(assignment), budget, kAnyStep, Wanted::within);
  return fitted ? Result<FittedPlan>(std::move(**fitted)) : Result<FittedPlan>(fitted.error());
}

Result<std::optional<FittedPlan>> FittedSolver::fit_shorter(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget,
                                                            double than_seconds) const {
  const KnownFits::Key key = KnownFits::key_of(input, problem, assignment.choice, budget);
  if (known_->is_refused(key, than_seconds)) return std::optional<FittedPlan>();
  Result<std::optional<FittedPlan>> fitted = fit(input, problem, std::move(assignment), budget, than_seconds, Wanted::shorter);
  if (fitted) known_->refuse(key, *fitted ? (*fitted)->plan.step_seconds : than_seconds);
  return fitted;
}

Result<std::optional<FittedPlan>> FittedSolver::fit(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget, double wanted_seconds,
                                                    Wanted wanted) const {
  const auto is_unwanted = [&](const Timeline& times) { return wanted == Wanted::shorter && times.step_seconds >= wanted_seconds; };
  Result<Plan> plan = make_plan(input, problem, assignment);
  if (!plan) return plan.error();
  FittedPlan fitted{std::move(assignment), std::move(*plan), {}, ""};
  Result<Program> program = lower_(fitted.plan);
  if (!program) {
    if (wanted == Wanted::shorter) return std::optional<FittedPlan>();
    fitted.no_program = program.error().message;
    // Nothing is known of its tensors, and each axis is taken to have a communicator.
    if (device_.cluster)
      fitted.plan.memory =
          memory_account(*device_.cluster, {fitted.plan.peak_bytes}, static_cast<std::int64_t>(input.mesh.rank()));
    return std::optional(std::move(fitted));
  }
  add_memory(*program, fitted);
  if (wanted != Wanted::any && excess_bytes(fitted.plan, budget) > 0) {
    fitted.plan.step_seconds = kAnyStep;
    return wanted == Wanted::within ? std::optional(std::move(fitted)) : std::nullopt;
  }
  Result<Timeline> times = in_best_buckets(*program, input);
  if (!times) return times.error();
  const double waits = times->waits_before_updates;
  const bool may_be_sooner = waits > kWorthRoom * times->step_seconds && times->step_seconds - waits < wanted_seconds;
  if (!may_be_sooner && is_unwanted(*times)) return std::optional<FittedPlan>();
  fitted.plan.bucket_bytes = program->bucket_bytes;
  if (may_be_sooner && fitted.plan.peak_bytes < budget) {
    program->bucket_bytes = input.profile.bucket_bytes;
    program->room_bytes = budget;
    place_frees(*program);
    Result<Timeline> roomy = in_best_buckets(*program, input);
    if (!roomy) return roomy.error();
    if (roomy->step_seconds < times->step_seconds && !is_unwanted(*roomy)) {
      FittedPlan larger{fitted.assignment, fitted.plan, {}, ""};
      larger.plan.bucket_bytes = program->bucket_bytes;
      larger.plan.room_bytes = budget;
      add_memory(*program, larger);
      if (excess_bytes(larger.plan, budget) <= 0) {
        fitted = std::move(larger);
        times = std::move(roomy);
      }
    }
  }
  if (is_unwanted(*times)) return std::optional<FittedPlan>();
  add_step(problem, *times, fitted);
  return std::optional(std::move(fitted));
}

void FittedSolver::add_memory(const Program& program, FittedPlan& fitted) const {
  fitted.memory = memory_profile(program);
  fitted.plan.peak_bytes = fitted.memory.peak_bytes;
  if (device_.cluster) fitted.plan.memory = memory_account(*device_.cluster, program, fitted.memory);
}

std::int64_t FittedSolver::excess_bytes(const Plan& plan, std::int64_t budget) const {
  const std::int64_t over = plan.peak_bytes - budget;
  return device_.must_fit ? std::max(over, plan.memory.total_bytes() - device_.cluster->device.memory_bytes) : over;
}

// The additive cost and the simulated step count everything alike, but what overlaps and what several ops share.
void FittedSolver::add_step(const Problem& problem, const Timeline& times, FittedPlan& fitted) {
  Plan& plan = fitted.plan;
  plan.step_seconds = times.step_seconds;
  plan.forward_seconds = times.forward_seconds;
  TickSum counted = 0;
  for (std::size_t i = 0; i < problem.edges.size(); ++i) {
    const ProblemEdge& edge = problem.edges[i];
    const CostTable& table = problem.space.tables[problem.space.edges[i].table];
    const std::vector<std::uint32_t>& choice = fitted.assignment.choice;
    if (edge.of_parameter) counted += table.costs[std::size_t{choice[edge.from]} * table.columns + choice[edge.to]];
  }
  if (std::optional<std::string> note = step_note(plan, times, to_seconds(counted))) plan.notes.push_back(std::move(*note));
}

Result<Assignment> FittedSolver::assign(const ProblemInput& input, Problem& problem, std::int64_t budget, Effort effort) const {
  Assignment without_budget;
  return assign(input, problem, budget, effort, without_budget);
}

Result<Assignment> FittedSolver::assign(const ProblemInput& input, Problem& problem, std::int64_t budget, Effort effort,
                                        Assignment& without_budget) const {
  // Where the fastest plan of all fits, no term of memory need be looked at.
  std::vector<MemoryTerm> memory = std::exchange(problem.space.memory, {});
  Result<Assignment> answer = solve_({input, problem}, kNoBudget, kAnyWork);
  problem.space.memory = std::move(memory);
  if (!answer || answer->choice.empty()) return answer;
  answer->peak_bytes = evaluate(problem.space, answer->choice).peak_bytes;
  without_budget = *answer;
  return answer->peak_bytes > budget ? solve_({input, problem}, budget, effort) : answer;
}

Result<FittedSearch> FittedSolver::search(const ProblemInput& input, Problem& problem, std::int64_t budget, std::int64_t most_work, int most_rounds) const {
  return search(input, problem, budget, most_work, most_rounds, [&](Assignment answer) { return fit(input, problem, std::move(answer), budget); });
}

Result<FittedSearch> FittedSolver::search(const ProblemInput& input, Problem& problem, std::int64_t budget, std::int64_t most_work, int most_rounds,
                                          const Fit& fit_answer) const {
  FittedSearch found;
  Result<Assignment> answer = assign(input, problem, budget, most_work, found.without_budget);
  if (!answer) return answer.error();
  const Assignment first = *answer;
  found.lower_bound_seconds = to_seconds(first.lower_bound);
  found.status = first.status;
  found.binding = first.binding;
  found.least_bytes = first.least_bytes;
  const std::int64_t work_again = std::min(kWorkAgain, most_work / 2);
  std::int64_t asked = budget, refused = 0;  // budgets of the terms: the least that gave a plan, the most that gave none
  for (int round = 0; round < most_rounds && asked > refused; ++round) {
    if (answer->choice.empty()) {
      refused = asked;
    } else {
      const std::int64_t counted = answer->peak_bytes;
      Result<FittedPlan> fitted = fit_answer(std::move(*answer));
      if (!fitted) return fitted.error();
      const std::int64_t over = excess_bytes(fitted->plan, budget);
      if (over <= 0) {
        fitted->assignment.lower_bound = first.lower_bound;
        const bool proven = fitted->assignment.cost <= first.lower_bound;
        found.status = proven ? first.status : first.status == SolveStatus::heuristic ? SolveStatus::heuristic : SolveStatus::bounded;
        fitted->plan.status = found.status;
        fitted->plan.lower_bound_seconds = found.lower_bound_seconds;
        found.best = std::move(*fitted);
        return found;
      }
      asked = std::min(asked, counted) - over;
      keep_smaller(found.smallest, std::move(*fitted));
      if (round + 1 == most_rounds) break;
      if (asked > refused) {
        answer = solve_({input, problem}, asked, work_again >> round);
        if (!answer) return answer.error();
        continue;
      }
    }
    // Less was asked for than any plan holds: half way back.
    if (!found.smallest || round + 1 == most_rounds) break;
    const std::int64_t above = found.smallest->assignment.peak_bytes;
    asked = refused + (above - refused) / 2;
    answer = solve_({input, problem}, asked, work_again >> round);
    if (!answer) return answer.error();
  }
  if (found.status == SolveStatus::infeasible) return found;
  found.status = SolveStatus::heuristic;  // nothing is proven
  found.binding = "no plan is known that holds no more than the budget, though none is proven impossible";
  return found;
}

Result<std::optional<FittedPlan>> FittedSolver::smallest(const ProblemInput& input, const Problem& problem,
                                                             std::int64_t least_bytes) const {
  std::optional<FittedPlan> best;
  if (least_bytes == 0) return best;  // nothing is known to begin from
  for (const double factor : {1.0, 1.01, 1.03, 1.1, 1.3, 2.0, 4.0}) {
    const auto budget = static_cast<std::int64_t>(factor * static_cast<double>(least_bytes));
    Result<Assignment> answer = solve_({input, problem}, budget, kWorkForSmallest);
    if (!answer) return answer.error();
    if (answer->choice.empty()) continue;
    Result<FittedPlan> fitted = fit(input, problem, std::move(*answer), 0);
    if (!fitted) return fitted.error();
    keep_smaller(best, std::move(*fitted));
    if (factor > 1.0) break;
  }
  return best;
}

FittedSolver fitted_solver(const IntraSolver& solver, const Config& search, FittedSolver::Lower lower, DeviceMemory device) {
  const auto solve = [&](const ModelProblem& model, std::int64_t budget, Effort effort) { return solve_problem(solver, model, budget, search, effort); };
  const auto bound = [&](const StrategySpace& space, std::int64_t most_work) { return solver.least_costs(space, limits_of(search, most_work)); };
  return {solve, std::move(lower), device, bound};
}

}  // namespace meshwright
