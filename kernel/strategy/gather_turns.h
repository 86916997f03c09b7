// When programs gather parameters that are stored in shards: a unit at a time (decision 039). Private to the kernel.
#pragma once

#include <map>

#include "meshwright/strategy.h"
#include "strategy/variable_flow.h"

namespace meshwright {

// Of a unit, in a forward or a backward: when the first of its parameters is computed with, and when it is gathered if it is prefetched. Times are those
// of memory_terms.cpp.
struct GatherTurn {
  std::int32_t at = 0, ahead = 0;
};

struct GatherTurns {
  GatherTurn forward, backward;
};

// By variable of a parameter, those of its unit.
std::map<std::uint32_t, GatherTurns> gather_turns(const ProblemInput& input, const Problem& problem, const VariableFlow& flow);

}  // namespace meshwright
