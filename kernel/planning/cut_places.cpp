#include "cut_places.h"

namespace meshwright {

std::vector<CutPlace> cut_places(const ModelAnalysis& model, const std::vector<bool>& depends) {
  const Graph& graph = *model.graph;
  const auto is_bound = [&](NodeId id) { return depends[graph.nodes[id].results.front()]; };
  const std::size_t count = graph.nodes.size();
  std::vector<bool> barred(count + 1, false);
  std::vector<NodeId> last_use(graph.values.size(), 0);
  for (NodeId id = 0; id < count; ++id) {
    if (!is_bound(id)) continue;
    for (const Operand& operand : graph.nodes[id].operands) last_use[operand.value] = id;
  }
  std::vector<std::int64_t> bytes(count + 2, 0);  // first by how much they change
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const NodeId made = graph.values[id].producer;
    if (made == kNoId || !depends[id] || last_use[id] <= made) continue;
    bytes[made + 1] += graph.type(id).bytes();
    bytes[last_use[id] + 1] -= graph.type(id).bytes();
    const bool crosses = has_gradient(model, id);
    for (NodeId at = made + 1; !crosses && at <= last_use[id]; ++at) barred[at] = true;
  }
  for (std::size_t at = 1; at <= count; ++at) bytes[at] += bytes[at - 1];
  std::vector<CutPlace> places;
  for (NodeId id = 1; id < count; ++id) {
    if (is_bound(id) && !barred[id] && bytes[id] <= bytes[id - 1] && bytes[id] <= bytes[id + 1]) places.push_back({id, bytes[id]});
  }
  return places;
}

}  // namespace meshwright
