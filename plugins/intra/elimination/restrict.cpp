#include "restrict.h"

namespace meshwright::elimination {

StrategySpace restrict_space(const StrategySpace& space, const Kept& kept, std::span<const MemoryPoint> points) {
  StrategySpace result;
  for (std::size_t v = 0; v < space.nodes.size(); ++v) {
    SpaceNode& node = result.nodes.emplace_back();
    for (const std::uint32_t strategy : kept[v]) node.costs.push_back(space.nodes[v].costs[strategy]);
  }
  for (const SpaceEdge& edge : space.edges) {
    const CostTable& table = space.tables[edge.table];
    CostTable selected{
        static_cast<std::uint32_t>(kept[edge.from].size()), static_cast<std::uint32_t>(kept[edge.to].size()), {}};
    selected.costs.reserve(std::size_t{selected.rows} * selected.columns);
    for (const std::uint32_t row : kept[edge.from]) {
      for (const std::uint32_t column : kept[edge.to]) {
        selected.costs.push_back(table.costs[std::size_t{row} * table.columns + column]);
      }
    }
    result.edges.push_back({edge.from, edge.to, static_cast<std::uint32_t>(result.tables.size())});
    result.tables.push_back(std::move(selected));
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    const auto time = static_cast<std::int32_t>(k);
    for (std::uint32_t v = 0; v < space.nodes.size(); ++v) {
      if (points[k].bytes[v].empty()) continue;
      MemoryTerm& term = result.memory.emplace_back(MemoryTerm{v, time, time + 1, {}});
      for (const std::uint32_t strategy : kept[v]) term.bytes.push_back(points[k].bytes[v][strategy]);
    }
  }
  return result;
}

}  // namespace meshwright::elimination
