#include <algorithm>
#include <set>

#include "meshwright/op.h"

namespace meshwright {

namespace {

// Writes composites over the nodes that they stand for.
class Gathering {
 public:
  explicit Gathering(const Graph& graph) : graph_(graph), composite_at_(graph.nodes.size(), nullptr), replaced_(graph.nodes.size(), false) {}

  Status add(const Composite& composite) {
    const std::string where = "composite " + composite.node.op + " at '" + composite.node.name + "': ";
    if (composite.replaced.empty()) return plugin_failed(where + "stands for no node");
    for (const NodeId id : composite.replaced) {
      if (id >= graph_.nodes.size() || replaced_[id]) return plugin_failed(where + "stands for a node that is not there, or is taken");
      replaced_[id] = true;
    }
    composite_at_[*std::max_element(composite.replaced.begin(), composite.replaced.end())] = &composite;
    made_.insert(composite.node.results.begin(), composite.node.results.end());
    return Done{};
  }

  Result<Graph> run() {
    Graph made;
    made.name = graph_.name;
    std::vector<ValueId> now(graph_.values.size(), kNoId);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const NodeId producer = graph_.values[id].producer;
      if (producer != kNoId && replaced_[producer] && !made_.contains(id)) continue;
      now[id] = static_cast<ValueId>(made.values.size());
      made.values.push_back(graph_.values[id]);
    }
    bool complete = true;
    const auto move_id = [&](ValueId& id) {
      id = now[id];
      complete &= id != kNoId;
    };
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (replaced_[id] && composite_at_[id] == nullptr) continue;
      Node& node = made.nodes.emplace_back(composite_at_[id] != nullptr ? composite_at_[id]->node : graph_.nodes[id]);
      for (Operand& operand : node.operands) move_id(operand.value);
      for (ValueId& result : node.results) {
        move_id(result);
        if (complete) made.values[result].producer = static_cast<NodeId>(made.nodes.size() - 1);
      }
      if (!complete) return plugin_failed("'" + node.name + "' needs a value that a composite op replaces");
    }
    made.sources = graph_.sources;
    made.outputs = graph_.outputs;
    for (Source& source : made.sources) move_id(source.value);
    for (Output& output : made.outputs) move_id(output.value);
    if (!complete) return plugin_failed("an output of the model is a value that a composite op replaces");
    mark_gradients(made);
    if (Status status = validate(made); !status) return plugin_failed("composite ops leave a graph that is not valid: " + status.error().message);
    return made;
  }

 private:
  const Graph& graph_;
  std::vector<const Composite*> composite_at_;
  std::vector<bool> replaced_;
  std::set<ValueId> made_;
};

}  // namespace

Result<std::vector<std::string>> gather_composites(Graph& graph, const OpTable& ops) {
  std::vector<std::string> refused;
  for (const OpFamily* family : ops.families()) {
    Result<FoundComposites> found = family->find_composites(graph);
    if (!found) return found.error();
    refused.insert(refused.end(), found->refused.begin(), found->refused.end());
    if (found->composites.empty()) continue;
    Gathering gathering(graph);
    for (const Composite& composite : found->composites) {
      if (Status status = gathering.add(composite); !status) return status.error();
    }
    Result<Graph> gathered = gathering.run();
    if (!gathered) return gathered.error();
    graph = std::move(*gathered);
  }
  return refused;
}

}  // namespace meshwright
