#include <vector>

#include "meshwright/graph.h"

namespace meshwright {

void drop_dead_nodes(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (const Source& source : graph.sources) needed[source.value] = true;
  for (const Output& output : graph.outputs) needed[output.value] = true;
  std::vector<bool> lives(graph.nodes.size(), false);
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    for (const ValueId result : node.results) lives[id] = lives[id] || needed[result];
    if (!lives[id]) continue;
    for (const ValueId result : node.results) needed[result] = true;
    for (const Operand& operand : node.operands) needed[operand.value] = true;
  }

  std::vector<ValueId> now(graph.values.size(), kNoId);
  std::vector<Value> values;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (!needed[id]) continue;
    now[id] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[id]));
  }
  std::vector<Node> nodes;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (!lives[id]) continue;
    Node& node = nodes.emplace_back(std::move(graph.nodes[id]));
    for (Operand& operand : node.operands) operand.value = now[operand.value];
    for (ValueId& result : node.results) {
      result = now[result];
      values[result].producer = static_cast<NodeId>(nodes.size() - 1);
    }
  }
  for (Source& source : graph.sources) source.value = now[source.value];
  for (Output& output : graph.outputs) output.value = now[output.value];
  graph.values = std::move(values);
  graph.nodes = std::move(nodes);
}

}  // namespace meshwright
