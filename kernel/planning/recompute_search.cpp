#include "recompute_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "meshwright/recompute.h"

namespace meshwright {

namespace {

constexpr int kBetween = 2;

using Rank = std::tuple<bool, double, TickSum>;

// By the step, or the objective; nothing ranks behind all.
Rank rank_of(const FittedSearch& found) {
  if (!found.best) return {true, 0, 0};
  return {false, found.best->plan.step_seconds, found.best->assignment.cost};
}

class BlockCounts {
 public:
  BlockCounts(const FittedSolver& solver, const ProblemInput& input, std::span<const Pin> pins, std::int64_t budget, const FittedSearch& without)
      : solver_(solver), input_(input), pins_(pins), budget_(budget), without_(without), blocks_(recomputable_blocks(input.model)) {}

  Result<std::optional<RecomputeSearch>> run() {
    const Assignment& free = without_.without_budget;
    const bool is_best = without_.best && without_.best->assignment.cost <= free.cost;
    if (blocks_.empty() || free.choice.empty() || is_best) return std::optional<RecomputeSearch>();
    Result<RecomputeSearch> all = search(blocks_.size());
    if (!all) return all.error();
    std::size_t fewest = 0, most = blocks_.size();
    const std::size_t enough = enough_blocks(all->found);
    Rank at_most = rank_of(all->found);
    keep(std::move(*all));
    for (int i = 0; i <= kBetween && most - fewest > 1; ++i) {
      const std::size_t count = i == 0 ? enough : fewest + (most - fewest) / 2;
      if (count == most) continue;
      Result<RecomputeSearch> some = search(count);
      if (!some) return some.error();
      const Rank rank = rank_of(some->found);
      if (rank <= at_most && some->found.best) most = count, at_most = rank;
      else fewest = count;
      keep(std::move(*some));
    }
    if (without_.best && rank_of(best_->found) >= rank_of(without_)) return std::optional<RecomputeSearch>();
    return std::move(best_);
  }

 private:
  Result<RecomputeSearch> search(std::size_t count) const {
    RecomputeSearch made;
    made.recomputed.assign(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(count));
    ProblemInput given = input_;
    given.recomputed = made.recomputed;
    Result<Problem> problem = build_pinned(given, pins_);
    if (!problem) return problem.error();
    made.problem = std::move(*problem);
    Result<FittedSearch> found = solver_.search(given, made.problem, budget_);
    if (!found) return found.error();
    made.found = std::move(*found);
    bound_any_number(without_.without_budget, made.found);
    return made;
  }

  // By interpolation, the number from which the fastest plan of all fits; all, if it never does.
  [[nodiscard]] std::size_t enough_blocks(const FittedSearch& with_all) const {
    const std::int64_t none = without_.without_budget.peak_bytes, all = with_all.without_budget.peak_bytes;
    if (all > budget_ || none <= all) return blocks_.size();
    const double share = static_cast<double>(none - budget_) / static_cast<double>(none - all);
    const double count = std::ceil(share * static_cast<double>(blocks_.size()));
    return static_cast<std::size_t>(std::clamp(count, 1.0, static_cast<double>(blocks_.size())));
  }

  void keep(RecomputeSearch made) {
    if (!best_ || rank_of(made.found) < rank_of(best_->found)) best_ = std::move(made);
  }

  const FittedSolver& solver_;
  const ProblemInput& input_;
  const std::span<const Pin> pins_;
  const std::int64_t budget_;
  const FittedSearch& without_;
  const std::vector<std::string> blocks_;
  std::optional<RecomputeSearch> best_;
};

}  // namespace

void bound_any_number(const Assignment& without_budget, FittedSearch& found) {
  found.lower_bound_seconds = std::min(found.lower_bound_seconds, to_seconds(without_budget.lower_bound));
  if (!found.best) return;
  if (found.status == SolveStatus::optimal && found.best->assignment.cost > without_budget.lower_bound) found.status = SolveStatus::bounded;
  found.best->plan.status = found.status;
  found.best->plan.lower_bound_seconds = found.lower_bound_seconds;
}

Result<std::optional<RecomputeSearch>> search_recomputed(const FittedSolver& solver, const ProblemInput& input, std::span<const Pin> pins, std::int64_t budget,
                                                         const FittedSearch& without) {
  return BlockCounts(solver, input, pins, budget, without).run();
}

}  // namespace meshwright
