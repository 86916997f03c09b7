#include "wide.h"

#include <algorithm>

#include "budgeted.h"
#include "wide_search.h"

namespace meshwright::elimination {

namespace {

// What an attempt to finish may take: tables as large, and this share of what is left of the work and of the time.
constexpr double kMostFinishEntries = 20'000'000;
constexpr double kFinishShare = 0.1;

}  // namespace

Assignment solve_wide(const StrategySpace& space, std::int64_t budget, double max_table_entries, Meter& meter,
                      double share) {
  Meter own(meter.left(share));
  WideSearchOptions options;
  options.spend = [&own](std::int64_t steps) { return own.spend(steps); };
  options.finish = [&](const StrategySpace& left, std::int64_t room) -> std::optional<Assignment> {
    if (needed_shift(left) > 0) return std::nullopt;
    const SearchLimits limits = own.left(kFinishShare);
    const double most = std::min(max_table_entries, kMostFinishEntries);
    const Problem problem = make_problem(left);
    const Order order = find_order(problem);
    if (order.largest_table > most || order.work > 0.1 * static_cast<double>(limits.work_limit)) return std::nullopt;
    Meter finishing(limits);
    Assignment answer = Budgeted(left, most, finishing).solve(room);
    own.spend(finishing.work());
    if (finishing.cut_off_by_clock()) own.note_cut_off();
    return answer;
  };
  const WideSearchResult found = wide_search(space, budget, options);
  meter.spend(own.work());
  Assignment result;
  result.method = found.method;
  result.cut_off_by_clock = own.cut_off_by_clock();
  if (found.infeasible) {
    result.status = SolveStatus::infeasible;
    result.least_bytes = found.least_bytes;
    if (found.least_bytes == 0) {
      result.binding = kNothingAllowed;
    } else if (found.time) {
      result.binding = binding_text(found.least_bytes, *found.time, budget);
    } else {
      result.binding = "needs at least " + std::to_string(found.least_bytes) + " bytes per device; the budget is " +
                       std::to_string(budget) + " bytes";
    }
    return result;
  }
  result.choice = found.choice;
  result.cost = found.cost;
  result.lower_bound = found.lower_bound;
  result.status = found.lower_bound > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
  if (!found.choice.empty() && found.cost == found.lower_bound) result.status = SolveStatus::optimal;
  return result;
}

}  // namespace meshwright::elimination
