#include "integer_solver.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "local_search.h"
#include "marginal_program.h"
#include "message_bound.h"

namespace meshwright {

namespace {

constexpr int kBoundSweeps = 200;

constexpr double kIntegrality = 1e-6;

// Whether a relaxation's solution chooses, so that the integer program has nothing to add to it.
bool integral(const MarginalProgram& made, const std::vector<double>& values) {
  if (values.empty()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (made.program.columns[i].integer && std::abs(values[i] - std::round(values[i])) > kIntegrality) return false;
  }
  return true;
}

class Program {
 public:
  Program(const Engine& engine, const StrategySpace& space, const SearchLimits& limits, std::int64_t max_columns)
      : engine_(engine),
        space_(space),
        max_columns_(max_columns),
        work_limit_(limits.work_limit),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.deadline_seconds))) {}

  Assignment solve(std::int64_t budget) {
    best_.reset();
    Assignment answer;
    answer.method = engine_.name();
    if (!messages_) messages_ = message_bound(space_, kBoundSweeps, seconds_left() / 4);
    lower_ = messages_->bound;
    consider(messages_->choice, budget);
    if (count_columns(space_) > max_columns_) {
      answer.method = "messages and local search: " + std::to_string(count_columns(space_)) +
                      " columns are too many for " + engine_.name();
      return finish(std::move(answer), budget);
    }
    const MarginalProgram made = make_marginal_program(space_, budget);
    if (made.infeasible) return nothing_allowed(std::move(answer));
    if (space_.fixed_bytes > budget) return explain(std::move(answer), budget);
    // The relaxation first: it is nearly integral, and its value is a bound if the rest is cut off.
    const EngineAnswer relaxed = run(made, false, std::nullopt);
    if (relaxed.status == EngineAnswer::Status::infeasible) return explain(std::move(answer), budget);
    if (relaxed.status == EngineAnswer::Status::optimal) {
      raise_bound(made, relaxed.objective);
      consider(made.round(relaxed.values), budget);
    }
    if (!proven() && relaxed.status != EngineAnswer::Status::stopped && !integral(made, relaxed.values)) {
      const double known = static_cast<double>(lower_ - made.constant) / made.ticks_per_unit;
      const EngineAnswer whole = run(made, true, known);
      if (whole.status == EngineAnswer::Status::infeasible && !best_) return explain(std::move(answer), budget);
      if (!whole.values.empty()) consider(made.round(whole.values), budget);
      if (whole.status == EngineAnswer::Status::optimal) raise_bound(made, whole.objective);
    }
    answer.cut_off_by_clock = cut_off_;
    return finish(std::move(answer), budget);
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Candidate {
    std::vector<std::uint32_t> choice;
    TickSum cost;
  };

  [[nodiscard]] double seconds_left() const {
    return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
  }

  EngineAnswer run(const MarginalProgram& made, bool integer, std::optional<double> good_enough) {
    EngineAnswer answer = engine_.run(made.program, integer, {seconds_left(), work_limit_, good_enough});
    cut_off_ = cut_off_ || answer.cut_off_by_clock;
    return answer;
  }

  [[nodiscard]] bool proven() const { return best_ && best_->cost <= lower_; }

  [[nodiscard]] double lowered(double objective) const {
    return objective - std::abs(objective) * engine_.relative_margin() - engine_.absolute_margin();
  }

  // Costs are whole ticks, so a bound rounds up.
  void raise_bound(const MarginalProgram& made, double objective) {
    const double ticks = std::ceil(std::max(0.0, lowered(objective)) * made.ticks_per_unit);
    lower_ = std::max(lower_, made.constant + static_cast<TickSum>(ticks));
  }

  void consider(const std::vector<std::uint32_t>& choice, std::int64_t budget) {
    const Evaluation evaluation = evaluate(space_, choice);
    if (!evaluation.allowed || evaluation.peak_bytes > budget) return;
    if (!best_ || evaluation.cost < best_->cost) best_ = Candidate{choice, evaluation.cost};
  }

  Assignment finish(Assignment answer, std::int64_t budget) {
    if (!proven()) {
      const auto& start = best_ ? best_->choice : messages_->choice;
      consider(local_search(space_, start, budget), budget);
    }
    answer.lower_bound = lower_;
    answer.status = lower_ > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
    if (!best_) return answer;
    answer.choice = best_->choice;
    answer.cost = best_->cost;
    if (answer.cost <= answer.lower_bound) {
      answer.lower_bound = answer.cost;
      answer.status = SolveStatus::optimal;
    }
    return answer;
  }

  static Assignment nothing_allowed(Assignment answer) {
    answer.status = SolveStatus::infeasible;
    answer.binding = kNothingAllowed;
    return answer;
  }

  // The engine says that nothing fits: the least peak says why, and is checked against the claim.
  Assignment explain(Assignment answer, std::int64_t budget) {
    const MarginalProgram made = make_least_peak_program(space_);
    const EngineAnswer least = run(made, true, std::nullopt);
    if (least.status == EngineAnswer::Status::infeasible) return nothing_allowed(std::move(answer));
    if (!least.values.empty()) consider(made.round(least.values), budget);
    if (best_ || least.status != EngineAnswer::Status::optimal) {
      answer.cut_off_by_clock = cut_off_;
      return finish(std::move(answer), budget);
    }
    const auto bytes = static_cast<std::int64_t>(std::ceil(lowered(least.objective) * made.bytes_per_unit));
    const Evaluation evaluation = evaluate(space_, made.round(least.values));
    if (bytes <= budget) return finish(std::move(answer), budget);  // too close to call in doubles
    answer.status = SolveStatus::infeasible;
    answer.least_bytes = bytes;
    answer.binding = binding_text(bytes, evaluation.peak_time, budget);
    return answer;
  }

  const Engine& engine_;
  const StrategySpace& space_;
  const std::int64_t max_columns_;
  const std::int64_t work_limit_;
  const Clock::time_point end_;
  std::optional<MessageBound> messages_;
  TickSum lower_ = 0;
  std::optional<Candidate> best_;
  bool cut_off_ = false;
};

}  // namespace

std::vector<Assignment> solve_integer_program(const Engine& engine, const StrategySpace& space,
                                              std::span<const std::int64_t> budgets, const SearchLimits& limits,
                                              std::int64_t max_columns) {
  Program program(engine, space, limits, max_columns);
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets) answers.push_back(program.solve(budget));
  return answers;
}

}  // namespace meshwright
