// A lower bound of a space's least cost, budget aside, in exact ticks: the dual of the marginal program, improved by
// passing messages along the edges in the order of the nodes and back (sequential reweighted message passing,
// Kolmogorov 2006 and 2015). Exact on trees, and valid whenever it stops: a bound for solvers whose own gave out.
#pragma once

#include "meshwright/strategy_space.h"

namespace meshwright {

// Never negative. A space in which nothing is allowed may give any number.
TickSum message_bound(const StrategySpace& space, int sweeps, double deadline_seconds);

}  // namespace meshwright
