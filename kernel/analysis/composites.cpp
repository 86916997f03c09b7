#include <algorithm>
#include <map>

#include "meshwright/op.h"

namespace meshwright {

namespace {

class Gathering {
 public:
  explicit Gathering(Graph& graph) : graph_(graph) {}

  Status put_in(Composite composite) {
    const std::string where = "composite " + composite.node.op + " at '" + composite.node.name + "': ";
    if (composite.at >= graph_.nodes.size()) return plugin_failed(where + "there is no node whose place it takes");
    const std::vector<ValueId>& known = graph_.nodes[composite.at].results;
    const std::vector<ValueId>& results = composite.node.results;
    const bool same = results.size() >= known.size() && std::equal(known.begin(), known.end(), results.begin());
    const bool more = same && std::all_of(results.begin() + static_cast<std::ptrdiff_t>(known.size()), results.end(), is_new);
    if (!more) return plugin_failed(where + "its first results are not those of the node whose place it takes");
    for (const Node& node : composite.before) {
      if (!std::ranges::all_of(node.results, is_new)) return plugin_failed(where + "'" + node.name + "' makes a value that another node makes");
    }
    const auto first = static_cast<ValueId>(graph_.values.size());
    composite.before.push_back(std::move(composite.node));
    for (Node& node : composite.before) {
      for (Operand& operand : node.operands) operand.value = placed(operand.value, first);
      for (ValueId& result : node.results) result = placed(result, first);
    }
    graph_.values.insert(graph_.values.end(), composite.values.begin(), composite.values.end());
    for (const Node& node : composite.before) {
      const auto unknown = [&](ValueId id) { return id >= graph_.values.size(); };
      if (std::ranges::any_of(node.results, unknown) || std::ranges::any_of(node.operands, unknown, &Operand::value)) {
        return plugin_failed(where + "'" + node.name + "' names a value that there is not");
      }
    }
    graph_.nodes[composite.at] = std::move(composite.before.back());
    composite.before.pop_back();
    if (!composite.before.empty()) before_[composite.at] = std::move(composite.before);
    return Done{};
  }

  Status finish() {
    std::vector<Node> nodes;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (const auto found = before_.find(id); found != before_.end()) std::ranges::move(found->second, std::back_inserter(nodes));
      nodes.push_back(std::move(graph_.nodes[id]));
    }
    graph_.nodes = std::move(nodes);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const ValueId result : graph_.nodes[id].results) {
        graph_.values[result].producer = id;
      }
    }
    drop_dead_nodes(graph_);
    mark_gradients(graph_);
    const Status status = validate(graph_);
    if (!status) return plugin_failed("composite ops leave a graph that is not valid: " + status.error().message);
    return Done{};
  }

 private:
  static bool is_new(ValueId id) { return id >= kNewValue && id != kNoId; }
  static ValueId placed(ValueId id, ValueId first) { return is_new(id) ? first + (id - kNewValue) : id; }

  Graph& graph_;
  std::map<NodeId, std::vector<Node>> before_;
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
    for (Composite& composite : found->composites) {
      if (Status status = gathering.put_in(std::move(composite)); !status) return status.error();
    }
    if (Status status = gathering.finish(); !status) return status.error();
  }
  return refused;
}

}  // namespace meshwright
