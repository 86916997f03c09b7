#include "meshwright/graph.h"

namespace meshwright {

std::vector<std::string> drop_unused(Graph& graph) {
  std::vector<std::string> unused_inputs;
  std::vector<bool> needed(graph.values.size(), false);
  std::vector<bool> keep(graph.nodes.size(), false);
  for (const Output& output : graph.outputs) needed[output.value] = true;
  for (std::size_t id = graph.nodes.size(); id-- > 0;) {
    for (const ValueId result : graph.nodes[id].results) keep[id] = keep[id] || needed[result];
    if (!keep[id]) continue;
    for (const ValueId result : graph.nodes[id].results) needed[result] = true;  // a node keeps all of its results
    for (const Operand& operand : graph.nodes[id].operands) needed[operand.value] = true;
  }
  std::vector<ValueId> ids(graph.values.size(), kNoId);
  Graph kept;
  kept.name = graph.name;
  const auto move_value = [&](ValueId id, NodeId producer) {
    ids[id] = static_cast<ValueId>(kept.values.size());
    kept.values.push_back(std::move(graph.values[id]));
    kept.values.back().producer = producer;
  };
  for (Source& source : graph.sources) {
    if (!needed[source.value]) {
      if (source.kind == SourceKind::user_input) unused_inputs.push_back(source.names.front());
      continue;
    }
    move_value(source.value, kNoId);
    source.value = ids[source.value];
    kept.sources.push_back(std::move(source));
  }
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!keep[id]) continue;
    Node node = std::move(graph.nodes[id]);
    for (Operand& operand : node.operands) operand.value = ids[operand.value];
    for (ValueId& result : node.results) {
      move_value(result, static_cast<NodeId>(kept.nodes.size()));
      result = ids[result];
    }
    kept.nodes.push_back(std::move(node));
  }
  for (Output& output : graph.outputs) {
    output.value = ids[output.value];
    kept.outputs.push_back(std::move(output));
  }
  graph = std::move(kept);
  return unused_inputs;
}

}  // namespace meshwright
