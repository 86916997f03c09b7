// Reads a problem of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism (google/iopddl) as a StrategySpace.
//
//   {"problem": {"nodes": {"intervals": [[b, e], ...], "costs": [[...], ...], "usages": [[...], ...]},
//                "edges": {"nodes": [[i, j], ...], "costs": [[...], ...]},  "usage_limit": L}}
//
// Costs of edges are row-major; a cost of 1e18 or more forbids; intervals are half open, and what holds for no time
// holds nothing; parallel edges add, and an edge from a node to itself adds to the node. Other keys are not looked at.
#pragma once

#include <string>

#include "meshwright/result.h"
#include "meshwright/strategy_space.h"

namespace meshwright::host {

struct IopddlProblem {
  StrategySpace space;  // valid; identical tables are stored once
  std::int64_t usage_limit = 0;
};

// Error: bad_input with the file and the place.
Result<IopddlProblem> read_iopddl(const std::string& path);
Result<IopddlProblem> parse_iopddl(std::string_view text, const std::string& name);

}  // namespace meshwright::host
