#include "meshwright/solver.h"

#include <algorithm>

#include "search/checked_answers.h"
#include "tensor/guarded.h"

namespace meshwright {

namespace {

Status check_infeasible(const Assignment& answer, std::int64_t budget) {
  if (!answer.choice.empty()) return plugin_failed("the solver says 'infeasible' and gives a choice");
  if (answer.binding.empty()) return plugin_failed("the solver says 'infeasible' without saying what binds");
  if (answer.least_bytes != 0 && answer.least_bytes <= budget) {
    return plugin_failed("the solver says 'infeasible', but its least bytes are within the budget");
  }
  return Done{};
}

// Recomputes what can be, and holds the rest against it.
Status check_choice(const StrategySpace& space, Assignment& answer, std::int64_t budget) {
  if (answer.choice.size() != space.nodes.size()) {
    return plugin_failed("the solver's choice is for " + std::to_string(answer.choice.size()) + " nodes of " +
                         std::to_string(space.nodes.size()));
  }
  for (std::size_t id = 0; id < answer.choice.size(); ++id) {
    if (answer.choice[id] >= space.nodes[id].costs.size()) {
      return plugin_failed("the solver chose a strategy that node '" + space.nodes[id].name + "' does not have");
    }
  }
  const Evaluation evaluation = evaluate(space, answer.choice);
  if (!evaluation.allowed) return plugin_failed("the solver's choice is not allowed: it has a forbidden cost");
  if (evaluation.peak_bytes > budget) {
    return plugin_failed("the solver's choice needs " + std::to_string(evaluation.peak_bytes) + " bytes at time " +
                         std::to_string(evaluation.peak_time) + ", over the budget of " + std::to_string(budget));
  }
  answer.cost = evaluation.cost;
  answer.peak_bytes = evaluation.peak_bytes;
  if (answer.lower_bound > answer.cost) return plugin_failed("the solver's lower bound is above its own answer's cost");
  if (answer.status == SolveStatus::optimal && answer.lower_bound != answer.cost) {
    return plugin_failed("the solver says 'optimal', but its lower bound is below its answer's cost");
  }
  return Done{};
}

Status check_answer(const StrategySpace& space, Assignment& answer, std::int64_t budget) {
  if (answer.lower_bound < 0) return plugin_failed("the solver's lower bound is negative");
  if (answer.status == SolveStatus::infeasible) return check_infeasible(answer, budget);
  if (!answer.choice.empty()) return check_choice(space, answer, budget);
  if (answer.status == SolveStatus::optimal) return plugin_failed("the solver says 'optimal' and gives no choice");
  return Done{};
}

// What fits a budget fits every larger one, so the bounds of larger budgets must allow it.
Status check_sequence(const std::vector<Assignment>& answers) {
  for (std::size_t small = 0; small < answers.size(); ++small) {
    if (answers[small].choice.empty()) continue;
    for (std::size_t large = small + 1; large < answers.size(); ++large) {
      if (answers[large].status == SolveStatus::infeasible || answers[large].lower_bound > answers[small].cost) {
        return plugin_failed("the solver's answer to a larger budget contradicts its answer to a smaller one");
      }
    }
  }
  return Done{};
}

// A space without nodes has one choice, the empty one.
std::vector<Assignment> answer_empty_space(const StrategySpace& space, std::span<const std::int64_t> budgets) {
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets) {
    Assignment answer;
    answer.method = "nothing to choose";
    answer.peak_bytes = space.fixed_bytes;
    answer.status = SolveStatus::optimal;
    if (space.fixed_bytes > budget) {
      answer.status = SolveStatus::infeasible;
      answer.least_bytes = space.fixed_bytes;
      answer.binding = binding_text(space.fixed_bytes, 0, budget);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

// In tenths of a GiB: a need rounds up and a budget down, so that neither reads as less tight than it is.
std::string gibibytes(std::int64_t bytes, bool up) {
  constexpr __int128 kGibibyte = __int128{1} << 30;
  const auto tenths = static_cast<std::int64_t>((__int128{bytes} * 10 + (up ? kGibibyte - 1 : 0)) / kGibibyte);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

}  // namespace

IntraSolver::~IntraSolver() = default;

std::string binding_text(std::int64_t least_bytes, std::int32_t time, std::int64_t budget) {
  // Below a GiB, or where rounding would make need and budget look alike, only bytes are clear.
  constexpr std::int64_t kClear = std::int64_t{1} << 30;
  const bool clear = budget >= kClear && least_bytes - budget > kClear / 10;
  const std::string need = clear ? gibibytes(least_bytes, true) : std::to_string(least_bytes) + " bytes";
  const std::string have = clear ? gibibytes(budget, false) : std::to_string(budget) + " bytes";
  return "needs at least " + need + " per device at time " + std::to_string(time) + "; the budget is " + have;
}

std::string_view name(SolveStatus status) {
  switch (status) {
    case SolveStatus::optimal:
      return "optimal";
    case SolveStatus::bounded:
      return "bounded";
    case SolveStatus::heuristic:
      return "heuristic";
    case SolveStatus::infeasible:
      return "infeasible";
  }
  return "unknown";
}

Status check_budgets(std::span<const std::int64_t> budgets) {
  if (budgets.empty()) return bad_input("no memory budget was given; without a limit give kNoBudget");
  if (budgets.front() < 0) return bad_input("a memory budget is negative");
  if (!std::is_sorted(budgets.begin(), budgets.end())) return bad_input("the memory budgets do not ascend");
  return Done{};
}

Result<std::vector<Assignment>> checked_answers(const StrategySpace& space, std::span<const std::int64_t> budgets, const Ask& ask) {
  if (Status status = validate(space); !status) return status.error();
  if (Status status = check_budgets(budgets); !status) return status.error();
  if (space.nodes.empty()) return answer_empty_space(space, budgets);
  return guarded([] { return std::string("the solver"); }, [&]() -> Result<std::vector<Assignment>> {
    Result<std::vector<Assignment>> answers = ask();
    if (!answers) return answers;
    if (answers->size() != budgets.size()) {
      return plugin_failed("the solver gave " + std::to_string(answers->size()) + " answers to " +
                           std::to_string(budgets.size()) + " budgets");
    }
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      if (Status status = check_answer(space, (*answers)[i], budgets[i]); !status) return status.error();
    }
    if (Status status = check_sequence(*answers); !status) return status.error();
    return answers;
  });
}

Result<std::vector<Assignment>> IntraSolver::solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                   const SearchLimits& limits) const {
  return checked_answers(space, budgets, [&] { return do_solve(space, budgets, limits); });
}

Result<LeastCosts> IntraSolver::least_costs(const StrategySpace& space, const SearchLimits& limits) const {
  if (Status status = validate(space); !status) return status.error();
  return guarded([] { return std::string("the solver"); }, [&]() -> Result<LeastCosts> {
    Result<LeastCosts> costs = do_least_costs(space, limits);
    if (!costs || costs->empty()) return costs;
    const auto is_of = [](const SpaceNode& node, const std::vector<TickSum>& least) {
      return node.costs.size() == least.size() && std::ranges::none_of(least, [](TickSum cost) { return cost < 0; });
    };
    if (!std::ranges::equal(space.nodes, *costs, is_of)) return plugin_failed("the solver's least costs are not those of the space's strategies");
    return costs;
  });
}

Result<LeastCosts> IntraSolver::do_least_costs(const StrategySpace&, const SearchLimits&) const { return LeastCosts(); }

}  // namespace meshwright
