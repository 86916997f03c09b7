// The search problem alone, without a Graph: variables with costs, pairs of variables with costs, and memory terms
// that live over intervals of time. A contest file is one, and so is what the kernel builds from a model (strategy.h).
//
//   minimize   Σ_n node_cost[n][s_n] + Σ_(a,b) edge_cost[s_a][s_b]
//   subject to max_t Σ_{terms live at t} bytes[s_node] + fixed_bytes ≤ budget
//
// Costs are ticks (ticks.h). A cost of kForbidden or more means that the choice is not allowed; it is never summed,
// averaged or scaled.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct SpaceNode {
  std::string name;
  std::vector<Ticks> costs;  // one for each strategy; at least one
};

// costs[row * columns + column]: row is the strategy of the edge's `from`, column that of its `to`.
struct CostTable {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<Ticks> costs;
};

struct SpaceEdge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;     // not `from`
  std::uint32_t table = 0;  // index into tables; identical tables are stored once. Parallel edges add.
};

// Bytes that node `node` holds during [begin, end), by its strategy.
struct MemoryTerm {
  std::uint32_t node = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::vector<std::int64_t> bytes;
};

struct StrategySpace {
  std::vector<SpaceNode> nodes;
  std::vector<CostTable> tables;
  std::vector<SpaceEdge> edges;
  std::vector<MemoryTerm> memory;
  std::int64_t fixed_bytes = 0;  // held whatever is chosen
};

// Sizes agree, ids are in range, costs and bytes are not negative, begin < end.
MESHWRIGHT_API Status validate(const StrategySpace& space);

struct Evaluation {
  TickSum cost = 0;
  bool allowed = true;          // false if a chosen entry is forbidden; `cost` is then the sum of the others
  std::int64_t peak_bytes = 0;  // fixed_bytes included
  std::int32_t peak_time = 0;   // the first point at which it is reached
};

// The cost of one strategy per node; nothing if a chosen entry is forbidden. `choice` has one valid index per node.
MESHWRIGHT_API std::optional<TickSum> cost_of(const StrategySpace& space, std::span<const std::uint32_t> choice);

// The cost and the peak of one strategy per node. `choice` has one valid index per node.
MESHWRIGHT_API Evaluation evaluate(const StrategySpace& space, std::span<const std::uint32_t> choice);

}  // namespace meshwright
