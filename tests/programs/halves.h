// A model as a pipeline of two stages.
#pragma once

#include <cstdint>
#include <vector>

#include "cut_model.h"
#include "sources.h"

namespace meshwright::test {

// With about half of the nodes in each.
inline CutModel half(const Graph& graph) {
  std::vector<std::uint32_t> stage_of;
  const std::vector<bool> depends = depends_on_parameters(graph);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) stage_of.push_back(depends[graph.nodes[node].results.front()] && 2 * node > graph.nodes.size() ? 1 : 0);
  return cut_model(graph, stage_of, 2).value();
}

}  // namespace meshwright::test
