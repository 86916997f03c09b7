#include "meshwright/graph.h"

namespace meshwright {

std::vector<std::string> drop_unused(Graph& graph) {
  drop_dead_nodes(graph);
  std::vector<bool> needed(graph.values.size(), false);
  for (const Output& output : graph.outputs) needed[output.value] = true;
  for (const Node& node : graph.nodes) {
    for (const Operand& operand : node.operands) needed[operand.value] = true;
  }
  std::vector<std::string> inputs;
  for (const Source& source : graph.sources) {
    if (!needed[source.value] && source.kind == SourceKind::user_input) inputs.push_back(source.names.front());
  }
  std::erase_if(graph.sources, [&](const Source& source) { return !needed[source.value]; });
  drop_dead_nodes(graph);  // the values of the sources that went
  return inputs;
}

}  // namespace meshwright
