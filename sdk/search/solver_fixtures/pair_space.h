// The smallest space that has everything: a forbidden pair, costs, and memory that overlaps for a while.
#pragma once

#include "meshwright/strategy_space.h"

namespace meshwright {

// The cheap pair (0, 0) is forbidden; (0, 1) is the cheapest and holds the most.
inline StrategySpace pair_space() {
  StrategySpace space;
  space.nodes = {{"a", {1, 10}}, {"b", {1, 2}}};
  space.tables = {{2, 2, {kForbidden, 0, 0, 0}}};
  space.edges = {{0, 1, 0}};
  space.memory = {{0, 0, 2, {80, 10}}, {1, 1, 3, {5, 20}}};
  return space;
}

}  // namespace meshwright
