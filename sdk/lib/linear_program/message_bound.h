// A lower bound of a space's least cost, budget aside, in exact ticks: the dual of the marginal program, improved by
// passing messages along the edges in the order of the nodes and back (sequential reweighted message passing,
// Kolmogorov 2006 and 2015). Exact on trees, and valid whenever it stops: a bound for solvers whose own gave out.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright {

struct MessageBound {
  TickSum bound = 0;  // never negative; any number if nothing is allowed
  std::vector<std::uint32_t>
      choice;  // what the messages point to: exact on trees, often good elsewhere, maybe not allowed
};

MessageBound message_bound(const StrategySpace& space, int sweeps, double deadline_seconds);

}  // namespace meshwright
