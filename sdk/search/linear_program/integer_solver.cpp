#include "integer_solver.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "local_search.h"
#include "marginal_program.h"
#include "wide_search.h"

namespace meshwright {

namespace {

// Messages and their search may take half of the work and of the time, before the engine gets what they left of the
// space. It gets a space of few columns at once.
constexpr std::int64_t kWorkShare = 2;
constexpr double kTimeShare = 2;
constexpr std::int64_t kFewColumns = 2000;

constexpr double kIntegrality = 1e-6;

// Whether a relaxation's solution chooses, so that the integer program has nothing to add to it.
bool integral(const MarginalProgram& made, const std::vector<double>& values) {
  if (values.empty()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (made.program.columns[i].integer && std::abs(values[i] - std::round(values[i])) > kIntegrality) return false;
  }
  return true;
}

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_until(Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - Clock::now()).count());
}

// The engine's answer to one space under one budget.
class Program {
 public:
  Program(const Engine& engine, const StrategySpace& space, std::int64_t budget, std::int64_t work,
          Clock::time_point end)
      : engine_(engine), space_(space), budget_(budget), work_(work), end_(end) {
    answer_.method = engine.name();
  }

  Assignment solve() {
    const MarginalProgram made = make_marginal_program(space_, budget_);
    if (made.infeasible) return nothing_allowed();
    // The relaxation first: it is nearly integral, and its value is a bound if the rest is cut off.
    const EngineAnswer relaxed = run(made, false, std::nullopt);
    if (relaxed.status == EngineAnswer::Status::infeasible) return explain();
    if (relaxed.status == EngineAnswer::Status::optimal) {
      raise_bound(made, relaxed.objective);
      consider(made, relaxed);
    }
    if (!proven() && relaxed.status != EngineAnswer::Status::stopped && !integral(made, relaxed.values)) {
      const double known = static_cast<double>(answer_.lower_bound - made.constant) / made.ticks_per_unit;
      const EngineAnswer whole = run(made, true, std::max(0.0, known));
      if (whole.status == EngineAnswer::Status::infeasible && answer_.choice.empty()) return explain();
      consider(made, whole);
      if (whole.status == EngineAnswer::Status::optimal) raise_bound(made, whole.objective);
    }
    return finish();
  }

 private:
  EngineAnswer run(const MarginalProgram& made, bool integer, std::optional<double> good_enough) {
    EngineAnswer answer = engine_.run(made.program, integer, {seconds_until(end_), work_, good_enough});
    answer_.cut_off_by_clock = answer_.cut_off_by_clock || answer.cut_off_by_clock;
    return answer;
  }

  [[nodiscard]] bool proven() const { return !answer_.choice.empty() && answer_.cost <= answer_.lower_bound; }

  [[nodiscard]] double lowered(double objective) const {
    return objective - std::abs(objective) * engine_.relative_margin() - engine_.absolute_margin();
  }

  // Costs are whole ticks, so a bound rounds up.
  void raise_bound(const MarginalProgram& made, double objective) {
    const double ticks = std::ceil(std::max(0.0, lowered(objective)) * made.ticks_per_unit);
    answer_.lower_bound = std::max(answer_.lower_bound, made.constant + static_cast<TickSum>(ticks));
  }

  void consider(const MarginalProgram& made, const EngineAnswer& found) {
    if (found.values.empty()) return;
    std::vector<std::uint32_t> choice = made.round(found.values);
    const Evaluation evaluation = evaluate(space_, choice);
    if (!evaluation.allowed || evaluation.peak_bytes > budget_) return;
    if (!answer_.choice.empty() && evaluation.cost >= answer_.cost) return;
    answer_.choice = std::move(choice);
    answer_.cost = evaluation.cost;
  }

  Assignment finish() {
    answer_.status = proven()                  ? SolveStatus::optimal
                     : answer_.lower_bound > 0 ? SolveStatus::bounded
                                               : SolveStatus::heuristic;
    if (proven()) answer_.lower_bound = answer_.cost;
    return std::move(answer_);
  }

  Assignment nothing_allowed() {
    answer_.status = SolveStatus::infeasible;
    return std::move(answer_);
  }

  // The engine says that nothing fits: the least peak says why, and is checked against the claim.
  Assignment explain() {
    const MarginalProgram made = make_least_peak_program(space_);
    const EngineAnswer least = run(made, true, std::nullopt);
    if (least.status == EngineAnswer::Status::infeasible) return nothing_allowed();
    consider(made, least);
    if (!answer_.choice.empty() || least.status != EngineAnswer::Status::optimal) return finish();
    const auto bytes = static_cast<std::int64_t>(std::ceil(lowered(least.objective) * made.bytes_per_unit));
    if (bytes <= budget_) return finish();  // too close to call in doubles
    answer_.status = SolveStatus::infeasible;
    answer_.least_bytes = bytes;
    return std::move(answer_);
  }

  const Engine& engine_;
  const StrategySpace& space_;
  const std::int64_t budget_;
  const std::int64_t work_;
  const Clock::time_point end_;
  Assignment answer_;
};

Assignment solve(const Engine& engine, const StrategySpace& space, std::int64_t budget, std::int64_t work_limit,
                 Clock::time_point end, const IntegerOptions& use) {
  std::int64_t work = 0, left_columns = 0;
  bool cut_off = false;
  const Clock::time_point end_of_messages = after(seconds_until(end) / kTimeShare);
  WideSearchOptions options;
  options.reduce_work = work_limit / kWorkShare;
  const std::int64_t most_work = use.messages ? work_limit / kWorkShare : 0;
  options.is_late = [end_of_messages] { return Clock::now() > end_of_messages; };
  options.spend = [&](std::int64_t steps) {
    work += steps;
    cut_off = cut_off || options.is_late();
    return work <= most_work && !cut_off;
  };
  options.finish = [&](const StrategySpace& left, std::int64_t room, bool last) -> std::optional<Assignment> {
    const std::int64_t columns = count_columns(left);
    if (columns > (last || !use.messages ? use.max_columns : std::min(use.max_columns, kFewColumns))) {
      left_columns = columns;
      return std::nullopt;
    }
    left_columns = 0;
    Assignment answer = Program(engine, left, room, work_limit, end).solve();
    cut_off = cut_off || answer.cut_off_by_clock;
    return answer;
  };
  Assignment answer = to_assignment(wide_search(space, budget, options), budget);
  if (left_columns > 0 && answer.status != SolveStatus::optimal) {
    answer.method += ": " + std::to_string(left_columns) + " columns are too many for " + engine.name();
  }
  if (answer.status == SolveStatus::infeasible || answer.status == SolveStatus::optimal) return answer;
  answer.cut_off_by_clock = cut_off;
  if (!answer.choice.empty()) return answer;
  std::vector<std::uint32_t> choice = local_search(space, std::vector<std::uint32_t>(space.nodes.size(), 0), budget);
  const Evaluation evaluation = evaluate(space, choice);
  if (!evaluation.allowed || evaluation.peak_bytes > budget) return answer;
  answer.choice = std::move(choice);
  answer.cost = evaluation.cost;
  if (answer.lower_bound == answer.cost) answer.status = SolveStatus::optimal;
  return answer;
}

}  // namespace

std::vector<Assignment> solve_integer_program(const Engine& engine, const StrategySpace& space,
                                              std::span<const std::int64_t> budgets, const SearchLimits& limits,
                                              const IntegerOptions& use) {
  const Clock::time_point end = after(limits.deadline_seconds);
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets)
    answers.push_back(solve(engine, space, budget, limits.work_limit, end, use));
  return answers;
}

}  // namespace meshwright
