// A LoadProblem with what must be together in one piece: groups, cycles of groups, and nodes that cost nothing and have
// one neighbour.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "meshwright/placement.h"

namespace meshwright {

struct LoadPiece {
  double accelerator_seconds = 0;
  double host_seconds = 0;
  double memory_bytes = 0;
  bool accelerator = true;
  std::vector<std::uint32_t> nodes;  // of the problem, ascending
  std::vector<std::uint32_t> values;
};

// Values of one maker that the same pieces read, and what moving them all costs an accelerator.
struct LoadValue {
  double seconds = 0;
  std::vector<std::uint32_t> pieces;  // the maker's and the readers', ascending; at least two
};

struct LoadGraph {
  std::vector<LoadPiece> pieces;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // that no stage order may turn around
  std::vector<LoadValue> values;                               // that cost something
};

LoadGraph make_load_graph(const LoadProblem& problem);

}  // namespace meshwright
