// Strategy spaces made from a seed; for tests. The same seed gives the same space everywhere: only the engine's raw
// numbers are used, never the library's distributions.
#pragma once

#include <cstdint>

#include "meshwright/strategy_space.h"

namespace meshwright::agreement {

// A chain, a tree or a DAG of few nodes, with forbidden entries, ties, shared tables, parallel edges and memory terms
// of several lifetimes. Small enough to try every choice.
StrategySpace random_space(std::uint64_t seed);

// A transformer's shape: `layers` alike layers of twelve nodes with two residual paths each, `strategies` per node, and
// memory of weights (held throughout) and activations (held from their layer on).
StrategySpace transformer_space(std::uint64_t seed, int layers, std::uint32_t strategies);

// A random DAG: every node has edges from up to three of the `reach` nodes before it, which makes it far too wide for
// exact elimination, and holds memory from its place on for a while.
StrategySpace random_dag_space(std::uint64_t seed, std::uint32_t nodes, std::uint32_t strategies, std::uint32_t reach);

}  // namespace meshwright::agreement
