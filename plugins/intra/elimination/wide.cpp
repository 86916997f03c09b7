#include "wide.h"

#include <algorithm>

#include "budgeted.h"
#include "wide_search.h"

namespace meshwright::elimination {

namespace {

// What an attempt to finish may take: tables as large, and this share of what is left of the work and of the time.
constexpr double kMostFinishEntries = 20'000'000;
constexpr double kFinishShare = 0.1;
constexpr double kOrderShare = 0.1;  // of an attempt, for one pass
constexpr std::int64_t kMostReduceWork = 1'000'000'000;

}  // namespace

Assignment solve_wide(const StrategySpace& space, std::int64_t budget, const WideOptions& wide, const std::vector<std::uint32_t>& start,
                      Meter& meter, double share) {
  const SearchLimits limits = meter.left(share);
  Meter own(limits);
  WideSearchOptions options;
  options.spend = [&own](std::int64_t steps) { return own.spend(steps); };
  options.most_work = limits.work_limit;
  options.is_late = [&own] { return own.is_late(); };
  options.two_threads = wide.two_threads;
  options.start = start;
  options.reduce_work = std::min(kMostReduceWork, limits.work_limit / 4);
  options.finish = [&](const StrategySpace& left, std::int64_t room, bool last) -> std::optional<Assignment> {
    if (last || needed_shift(left) > 0) return std::nullopt;
    const SearchLimits part = own.left(kFinishShare);
    const double most = std::min(wide.max_table_entries, kMostFinishEntries);
    const Problem problem = make_problem(left);
    const Order order = find_order(problem);
    if (order.largest_table > most || order.work > kOrderShare * static_cast<double>(part.work_limit)) return std::nullopt;
    Meter finishing(part);
    Assignment answer = Budgeted(left, most, wide.memo, 0, finishing).solve(room);
    own.spend(finishing.work());
    if (finishing.cut_off_by_clock()) own.note_cut_off();
    return answer;
  };
  Assignment result = to_assignment(wide_search(space, budget, options), budget);
  meter.spend(own.work());
  // Where it is proven, an attempt on the way was cut off, if any, and not the proof.
  result.cut_off_by_clock = own.cut_off_by_clock() && result.status != SolveStatus::optimal;
  return result;
}

}  // namespace meshwright::elimination
