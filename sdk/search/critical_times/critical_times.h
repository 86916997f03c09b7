// Which points in time a budget can bind at. The others, and what nodes hold only then, say nothing about which choices
// fit: without them most nodes of a large space have no memory left, and reduce() does more with them.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright {

// The same nodes and edges, and one more node, the last, with one strategy of no cost: it holds what is held whatever
// is chosen. Times are 0, 1, 2, ... A choice of the original fits `budget` exactly if the same choice, with 0 for the
// last node, fits it here; peaks differ. Points go whose terms' most bytes are within the budget, and those at which
// nothing is live that is not live at another one. `space` is valid.
struct CriticalSpace {
  StrategySpace space;
  std::vector<std::int32_t> times;  // of the original, by time of `space`
};
CriticalSpace keep_critical_times(const StrategySpace& space, std::int64_t budget);

}  // namespace meshwright
