#include "elimination.h"

#include <iterator>

#include "budgeted.h"
#include "meshwright/plugin.h"
#include "wide.h"

namespace meshwright {

namespace {

constexpr const char* kMaxTableEntries = "max_table_entries";
constexpr const char* kThreads = "threads";
constexpr const char* kMemo = "memo";
// Where work is limited elimination may take all of it; where only the clock is, half of the time.
constexpr std::int64_t kUnlimited = 1'000'000'000'000'000;
constexpr double kExactShare = 0.5;
constexpr std::int64_t kMiniBucketShare = 2;  // where tables are too large: this part of the work, at most, is missing later

constexpr meshwright_config_key_v1 kSchema[] = {
    {kMaxTableEntries, "integer", "entries", "200_000_000",
     "the largest joint table that may be built; where elimination needs a larger one, the space is bounded and "
     "searched by other means"},
    {kThreads, "integer", "", "1", "1 or 2, of that search; the answer is the same"},
    {kMemo, "boolean", "", "true",
     "what identical parts of the model, such as its layers, have in common is computed once; false: each time, for the same "
     "answer"},
};

void* create(const Config& config, Error& error) {
  const std::int64_t entries = config.integer(kMaxTableEntries);
  if (entries < 1) {
    error = bad_input("max_table_entries must be at least 1, not " + std::to_string(entries));
    return nullptr;
  }
  const std::int64_t threads = config.integer(kThreads);
  if (threads < 1 || threads > 2) {
    error = bad_input("threads must be 1 or 2, not " + std::to_string(threads));
    return nullptr;
  }
  return static_cast<IntraSolver*>(new Elimination(entries, threads == 2, config.boolean(kMemo)));
}

// What the answer to a space with shifted costs says about the space itself.
Assignment unshift(const StrategySpace& space, Assignment answer, int shift) {
  answer.lower_bound <<= shift;
  if (answer.choice.empty()) return answer;
  answer.cost = evaluate(space, answer.choice).cost;
  if (answer.status == SolveStatus::optimal && answer.lower_bound != answer.cost) answer.status = SolveStatus::bounded;
  return answer;
}

bool is_proven(const Assignment& answer) {
  return answer.status == SolveStatus::optimal || answer.status == SolveStatus::infeasible;
}

bool is_good_enough(const Assignment& answer, double gap) {
  return !answer.choice.empty() && elimination::is_within(gap, answer.cost, answer.lower_bound);
}

// What two searches of the same space and budget say together.
Assignment better_of(Assignment first, Assignment second) {
  if (first.method.empty()) return second;
  const std::string method = first.method + "; " + second.method;
  if (is_proven(second)) {
    second.method = method;
    return second;
  }
  const TickSum bound = std::max(first.lower_bound, second.lower_bound);
  const bool is_first = !first.choice.empty() && (second.choice.empty() || first.cost <= second.cost);
  const bool cut_off = first.cut_off_by_clock || second.cut_off_by_clock;
  Assignment result = std::move(is_first ? first : second);
  result.method = method;
  result.cut_off_by_clock = cut_off;
  result.lower_bound = bound;
  result.status = bound > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
  if (!result.choice.empty() && result.cost <= bound) {
    result.lower_bound = result.cost;
    result.status = SolveStatus::optimal;
  }
  return result;
}

// What fits a budget fits every larger one, and costs no less than what the larger one allows.
void agree(std::vector<Assignment>& answers) {
  for (std::size_t i = 1; i < answers.size(); ++i) {
    const Assignment& before = answers[i - 1];
    Assignment& answer = answers[i];
    if (before.choice.empty() || (!answer.choice.empty() && answer.cost <= before.cost)) continue;
    answer.choice = before.choice;
    answer.cost = before.cost;
    if (answer.lower_bound == answer.cost) answer.status = SolveStatus::optimal;
  }
  for (std::size_t i = answers.size(); i-- > 1;) {
    Assignment& answer = answers[i - 1];
    if (is_proven(answer) || answers[i].status == SolveStatus::infeasible) continue;
    answer.lower_bound = std::max(answer.lower_bound, answers[i].lower_bound);
    if (answer.lower_bound > 0) answer.status = SolveStatus::bounded;
    if (!answer.choice.empty() && answer.lower_bound == answer.cost) answer.status = SolveStatus::optimal;
  }
}

}  // namespace

Result<std::vector<Assignment>> Elimination::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                      const SearchLimits& limits) const {
  elimination::Meter meter(limits);
  elimination::Meter exact(meter.left(limits.work_limit < kUnlimited ? 1 : kExactShare));
  const int shift = elimination::needed_shift(space);
  const StrategySpace shifted = shift > 0 ? elimination::shift_costs(space, shift) : StrategySpace();
  const elimination::WideOptions wide = {static_cast<double>(max_table_entries_), two_threads_, memo_};
  elimination::Budgeted budgeted(shift > 0 ? shifted : space, wide.max_table_entries, memo_, limits.gap, exact);
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets) {
    Assignment answer;
    // In mini-buckets elimination often has the best choice, and does not know it; where only time counts, others find it sooner.
    if (budgeted.is_exact() || limits.work_limit < kUnlimited) {
      const std::int64_t before = exact.work();
      answer = unshift(space, budgeted.solve(budget), shift);
      const std::int64_t most = limits.work_limit / (kMiniBucketShare * static_cast<std::int64_t>(budgets.size()));
      meter.spend(budgeted.is_exact() ? exact.work() - before : std::min(exact.work() - before, most));
    }
    if (!is_proven(answer) && !is_good_enough(answer, limits.gap) && (answer.method.empty() || !meter.exhausted())) {
      const double share = 1.0 / static_cast<double>(budgets.size() - answers.size());
      answer = better_of(std::move(answer), elimination::solve_wide(space, budget, wide, answer.choice, meter, share));
    }
    answers.push_back(std::move(answer));
  }
  agree(answers);
  return answers;
}

// By one pass forward and one back.
Result<LeastCosts> Elimination::do_least_costs(const StrategySpace& space, const SearchLimits& limits) const {
  LeastCosts costs;
  if (elimination::needed_shift(space) > 0) return costs;
  elimination::Problem problem = elimination::make_problem(space);
  const elimination::JoinPlan plan = elimination::make_join_plan(problem, elimination::find_order(problem), static_cast<double>(max_table_entries_));
  if (!plan.exact) return costs;
  elimination::Meter meter(limits);
  elimination::Passes passes(problem, plan, meter, memo_);
  const std::optional<elimination::Forward> forward = passes.forward(problem.unary, false);
  if (!forward || !forward->allowed) return costs;
  const std::optional<elimination::Backward> backward = passes.backward(*forward);
  if (!backward) return costs;
  for (const std::vector<Ticks>& rises : backward->rise) {
    std::vector<TickSum>& of_node = costs.emplace_back();
    for (const Ticks rise : rises) of_node.push_back(rise >= kForbidden ? TickSum{kForbidden} : forward->value + rise);
  }
  return costs;
}

MESHWRIGHT_PLUGIN("intra", "elimination", "0.1.0", "Apache-2.0",
                  "Exact elimination of nodes, with a Lagrangian and Pareto labels for the memory budget", nullptr,
                  kSchema, std::size(kSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
