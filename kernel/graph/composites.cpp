#include "meshwright/op.h"

namespace meshwright {

namespace {

Status put_in(Graph& graph, Composite composite) {
  const std::string where = "composite " + composite.node.op + " at '" + composite.node.name + "': ";
  if (composite.at >= graph.nodes.size() || graph.nodes[composite.at].results != composite.node.results) {
    return plugin_failed(where + "its results are not those of the node whose place it takes");
  }
  graph.nodes[composite.at] = std::move(composite.node);
  return Done{};
}

}  // namespace

Result<std::vector<std::string>> gather_composites(Graph& graph, const OpTable& ops) {
  std::vector<std::string> refused;
  for (const OpFamily* family : ops.families()) {
    Result<FoundComposites> found = family->find_composites(graph);
    if (!found) return found.error();
    refused.insert(refused.end(), found->refused.begin(), found->refused.end());
    for (Composite& composite : found->composites) {
      if (Status status = put_in(graph, std::move(composite)); !status) return status.error();
    }
    if (found->composites.empty()) continue;
    drop_dead_nodes(graph);
    mark_gradients(graph);
    if (Status status = validate(graph); !status)
      return plugin_failed("composite ops leave a graph that is not valid: " + status.error().message);
  }
  return refused;
}

}  // namespace meshwright
