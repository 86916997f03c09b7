// One space under any number of budgets. Without a budget that binds, one forward pass is the answer. With one:
//
//   1. points in time enter when a choice breaks the budget there, so that only the few that bind are ever priced;
//   2. at each, the fewest bytes of any allowed choice are found by elimination: if that is too much, no choice fits;
//   3. multipliers give a lower bound (relaxation.h), and choices within the budget give an upper one;
//   4. min-marginals drop every strategy that no choice between the two can have, a dynamic program with labels
//      (labels.h) searches what is left, first close to the lower bound and then wider, until the answer is proven.
//
// The plan, the least cost and the least bytes are shared by all budgets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "labels.h"
#include "meter.h"
#include "passes.h"
#include "relaxation.h"

namespace meshwright::elimination {

// Whether a cost is above its bound by that part of it at most.
inline bool is_within(double gap, TickSum cost, TickSum bound) { return static_cast<double>(cost - bound) <= gap * static_cast<double>(bound); }

class Budgeted {
 public:
  // `space` needs no shift (problem.h) and outlives this; `gap` is that of SearchLimits.
  Budgeted(const StrategySpace& space, double max_table_entries, bool memo, double gap, Meter& meter);

  // Whether the tables that elimination needs are within the limit.
  [[nodiscard]] bool is_exact() const { return plan_.exact; }

  Assignment solve(std::int64_t budget);

 private:
  struct Point {
    MemoryPoint memory;
    TickSum least_value = 0;  // a lower bound of the bytes beyond memory.least that any allowed choice holds
    std::vector<std::uint32_t> least_choice;
  };
  struct Candidate {
    std::vector<std::uint32_t> choice;
    TickSum cost = 0;
  };
  struct Bounds {  // what the relaxation says about the points that are priced
    Relaxed relaxed;
    std::vector<MemoryPoint> points;
    std::vector<std::int64_t> room;
    Unaries rise;
  };
  struct Search;  // the state of one budget

  enum class Progress { proven, again, stuck };

  const Point* point_at(std::int32_t time);
  // Whether the best choice so far is good enough.
  [[nodiscard]] bool is_near(const Search& search) const;
  Progress tighten(Search& search);
  Progress finish(Search& search, const Bounds& bounds);
  LabelSearch search_below(Search& search, const Bounds& bounds, TickSum most_cost);
  // Whether it is the best one now.
  bool consider(Search& search, const std::vector<std::uint32_t>& choice) const;
  void cross_over(Search& search, const std::vector<std::uint32_t>& within, const std::vector<std::uint32_t>& over) const;
  void cross_closely(Search& search, const std::vector<std::uint32_t>& within, const std::vector<std::uint32_t>& over);
  Assignment answer(Search& search) const;
  Assignment impossible(std::int64_t least_bytes, std::int32_t time, std::int64_t budget) const;
  Assignment without_search(std::int64_t budget) const;

  const StrategySpace& space_;
  const double max_table_entries_, gap_;
  Meter& meter_;
  Problem problem_;
  JoinPlan plan_;
  Passes passes_;
  std::optional<Forward> unbudgeted_;
  std::map<std::int32_t, Point> points_;
  std::vector<std::uint32_t> line_;  // nodes, as choices are crossed over; empty until they are
};

}  // namespace meshwright::elimination
