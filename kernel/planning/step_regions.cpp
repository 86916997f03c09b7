#include "step_regions.h"

#include <algorithm>
#include <optional>

#include "distinct_plans.h"

namespace meshwright {

namespace {

constexpr int kMostAsked = 3;
constexpr std::size_t kShortest = 2;  // parts that may be searched further

std::vector<StrategyFilter> filters_by_hand(const ProblemInput& input, bool thorough) {
  std::vector<StrategyFilter> filters;
  const auto add = [&](std::uint32_t batch_axes, std::optional<ZeroStage> zero) {
    StrategyFilter filter = input.filter;
    filter.batch_axes |= batch_axes & ~(filter.sharded_weight_axes | filter.context_axes);
    if (!filter.zero) filter.zero = zero;
    if (filter != input.filter && std::ranges::find(filters, filter) == filters.end()) filters.push_back(filter);
  };
  const std::uint32_t all = (1U << input.mesh.rank()) - 1;
  add(all, ZeroStage::none);
  add(all, std::nullopt);
  add(all >> 1U, std::nullopt);
  add(all >> 1U, ZeroStage::none);
  for (std::size_t axis = 0; thorough && axis < input.mesh.rank(); ++axis) add(1U << axis, std::nullopt);
  return filters;
}

// Whether two strategies of a variable, of two problems, do the same.
bool is_same(const Strategy& one, const Strategy& other) {
  if (const NodeStrategy* node = one.node()) return node->call == other.node()->call;
  if (const ParameterStrategy* a = one.parameter()) {
    const ParameterStrategy& b = *other.parameter();
    return a->stored == b.stored && a->compute == b.compute && a->state == b.state && a->zero == b.zero && a->regather == b.regather && a->prefetch == b.prefetch;
  }
  if (const auto* fork = std::get_if<ForkStrategy>(&one.choice)) return fork->layouts == std::get<ForkStrategy>(other.choice).layouts;
  return std::get<OutputStrategy>(one.choice).layouts == std::get<OutputStrategy>(other.choice).layouts;
}

// The best plan by the objective whose program fits: less is asked for, a few times, as its program holds more than the search's terms say.
Result<std::optional<FittedPlan>> fitting_plan(const FittedSolver& solver, const ProblemInput& input, Problem& part, std::int64_t budget) {
  std::int64_t asked = budget;
  for (int i = 0; i < kMostAsked && asked > 0; ++i) {
    Result<Assignment> answer = solver.assign(input, part, asked, kMostWorkInPart);
    if (!answer) return answer.error();
    if (answer->choice.empty()) break;
    const std::int64_t counted = answer->peak_bytes;
    Result<FittedPlan> fitted = solver.fit(input, part, std::move(*answer), budget);
    if (!fitted) return fitted.error();
    if (!fitted->no_program.empty()) break;
    const std::int64_t over = solver.excess_bytes(fitted->plan, budget);
    if (over <= 0) return std::optional<FittedPlan>(std::move(*fitted));
    asked = std::min(asked, counted) - over;
  }
  return std::optional<FittedPlan>();
}

void add_choice(Choice choice, std::vector<Choice>& choices) {
  if (!choice.empty() && std::ranges::find(choices, choice) == choices.end()) choices.push_back(std::move(choice));
}

// Keeps the few with the shortest steps.
void keep_shortest(std::unique_ptr<PartSearch> part, std::vector<std::unique_ptr<PartSearch>>& shortest) {
  const auto behind = std::ranges::upper_bound(shortest, part->step_seconds(), {}, [](const auto& each) { return each->step_seconds(); });
  shortest.insert(behind, std::move(part));
  if (shortest.size() > kShortest) shortest.pop_back();
}

// Tries the part's best in the search of the whole, and joins it to that one's best, if it is shorter than before.
Status hand_over(const PartSearch& part, double before, const Problem& whole, StepSearch& steps) {
  const Choice found = part.choice_of(whole);
  if (part.step_seconds() >= before || found.empty()) return Done{};
  if (Status status = steps.try_choices({&found, 1}); !status) return status;
  return steps.join_best({&found, 1});
}

}  // namespace

Choice same_choice(const Problem& problem, const Choice& choice, const Problem& other) {
  Choice found;
  if (problem.variables.size() != other.variables.size()) return found;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Strategy& wanted = problem.variables[i].set->strategies[choice[i]];
    const std::vector<Strategy>& strategies = other.variables[i].set->strategies;
    const auto same = std::ranges::find_if(strategies, [&](const Strategy& each) { return is_same(wanted, each); });
    if (same == strategies.end()) return {};
    found.push_back(static_cast<std::uint32_t>(same - strategies.begin()));
  }
  return found;
}

Status PartSearch::try_neighbours(std::size_t count) {
  for (double before = 0; before != step_seconds();) {
    before = step_seconds();
    if (Status status = steps_.try_neighbours(steps_.best(), count); !status) return status;
  }
  return Done{};
}

Status PartSearch::join_best(const Problem& whole, std::span<const Choice> others) {
  std::vector<Choice> own;
  for (const Choice& each : others) add_choice(same_choice(whole, each, part_), own);
  return steps_.join_best(own);
}

Result<ChoicesByHand> choices_by_hand(const FittedSolver& solver, const ProblemInput& input, const Problem& problem, std::span<const Pin> pins,
                                      std::int64_t budget, int rounds, bool thorough) {
  ChoicesByHand choices;
  for (const StrategyFilter& filter : filters_by_hand(input, thorough)) {
    ProblemInput given = input;
    given.filter = filter;
    Result<Problem> part = build_pinned(given, pins);
    if (!part && part.error().code != ErrorCode::infeasible) return part.error();
    if (!part) continue;
    Result<std::optional<FittedPlan>> found = fitting_plan(solver, given, *part, budget);
    if (!found) return found.error();
    if (!*found) continue;
    const Choice by_objective = (*found)->assignment.choice;
    auto search = std::make_unique<PartSearch>(solver, std::move(given), std::move(*part), budget, std::move(**found));
    if (Status status = search->run_rounds(rounds); !status) return status.error();
    add_choice(search->choice_of(problem), choices.by_step);
    add_choice(search->choice_of(problem, by_objective), choices.by_objective);
    keep_shortest(std::move(search), choices.shortest);
  }
  return choices;
}

Status search_further(PartSearch& part, int rounds, const Problem& whole, StepSearch& steps) {
  const double before = part.step_seconds();
  if (Status status = part.run_rounds(rounds); !status) return status;
  return hand_over(part, before, whole, steps);
}

Status search_nearby(PartSearch& part, const ChoicesByHand& others, int rounds, const Problem& whole, StepSearch& steps) {
  const double before = part.step_seconds();
  for (const std::vector<Choice>& each : {others.by_step, others.by_objective}) {
    if (Status status = part.join_best(whole, each); !status) return status;
  }
  if (Status status = part.try_neighbours(kNeighbours); !status) return status;
  // A part that is longer is not searched from joined plans on.
  if (part.step_seconds() <= kNear * steps.best().plan.step_seconds) {
    if (Status status = part.run_rounds(rounds, kLeastWork); !status) return status;
    if (Status status = part.try_neighbours(kNeighbours); !status) return status;
  }
  return hand_over(part, before, whole, steps);
}

}  // namespace meshwright
