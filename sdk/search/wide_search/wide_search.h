// A bound and a choice for a space whose graph is too wide for exact elimination, under one budget; anytime.
//
//   shrinking_space.h       what can't matter goes: points in time, strategies, nodes
//   price_ascent.h          a lower bound, and prices of the points in time
//   neighbourhood_search.h  a choice, from what the messages point to
//   diving.h                other choices to begin with, and to recombine
//   probing.h               strategies that the bound excludes one by one
//   branching.h             a higher bound, where prices cannot decide
//   and again: strategies that no choice as good as the best one has are dropped, until the rest can be finished
//   exactly, or the work is spent
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/solver.h"

namespace meshwright {

struct WideSearchOptions {
  // Whether to go on, after so many more elementary steps. Once it says no, the search ends.
  std::function<bool(std::int64_t)> spend;
  // So many at the most, as far as is known: rounds are no longer than that, but for a few steps.
  std::int64_t most_work = std::numeric_limits<std::int64_t>::max();
  // Whether the clock wants the search to end; two threads may ask at once.
  std::function<bool()> is_late = [] { return false; };
  // An exact solver for what is left: an answer whose status is `optimal` or `infeasible` is taken, and of any other its
  // choice and its bound. It is asked at the start, whenever less is left, and, where it gave nothing for want of a
  // smaller space, once more (`last`) when the search ends. May be empty.
  std::function<std::optional<Assignment>(const StrategySpace& space, std::int64_t budget, bool last)> finish;
  bool two_threads = false;  // the answer is the same, unless the clock ends the search
  std::int64_t reduce_work = 1'000'000'000;  // ReduceOptions::dominance_work_limit
  std::uint64_t seed = 1;
  std::vector<std::uint32_t> start;  // a choice that is known, if there is one: what is dearer need not be looked at
};

struct WideSearchResult {
  std::vector<std::uint32_t> choice;  // empty if none was found
  TickSum cost = 0;
  TickSum lower_bound = 0;       // valid whenever the search ends; not negative
  bool infeasible = false;       // proven: nothing fits
  std::int64_t least_bytes = 0;  // then: what every allowed choice holds at its peak, at least; 0 if none is allowed
  std::optional<std::int32_t> time;  // when, if it is one time at which it does
  std::string method;                // which parts did it: "message passing, neighbourhood search"
};

// `space` is valid and has nodes.
WideSearchResult wide_search(const StrategySpace& space, std::int64_t budget, const WideSearchOptions& options);

// What it says to the host: status and, where nothing fits, why. Whether the clock cut it off is not known here.
Assignment to_assignment(WideSearchResult found, std::int64_t budget);

}  // namespace meshwright
