// When programs gather parameters that are stored in shards: a unit at a time (decision 039). Private to the kernel.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "meshwright/strategy.h"
#include "strategy/variable_flow.h"

namespace meshwright {

struct UnitMember {
  ValueId value = kNoId;
  std::int64_t bytes = 0;  // of all of it
  std::uint32_t unit = 0;
};

// The sources that `takes` says, which are parameters, in the model's order.
std::vector<UnitMember> unit_members(const Graph& graph, std::int64_t bucket_bytes, const std::function<bool(const Source&)>& takes);

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
