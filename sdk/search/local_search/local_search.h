// Improves a choice by changing one node at a time, for solvers whose own method gave out (iterated conditional modes,
// Besag 1986). No bound comes with it.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright {

// A choice that no change of a single node improves: first it has fewer forbidden costs, then it holds fewer bytes over
// the budget at the peak, then it costs less. Deterministic; it may still not be allowed. `start` has one strategy per
// node of the valid `space`.
std::vector<std::uint32_t> local_search(const StrategySpace& space, std::vector<std::uint32_t> start,
                                        std::int64_t budget, int most_sweeps = 8);

}  // namespace meshwright
