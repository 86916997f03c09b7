#include "meshwright/recompute.h"

#include <algorithm>
#include <map>

#include "meshwright/gather_units.h"

namespace meshwright {

namespace {

// Which nodes of the forward belong to which block, and what they use of each other.
class Blocks {
 public:
  explicit Blocks(const ModelAnalysis& model) : graph_(*model.graph), model_(*model.backward), border_(graph_.values.size(), false) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const std::string& block = names_.emplace_back(is_trained(id) ? block_of(graph_.nodes[id].module_path) : "");
      if (block.empty()) continue;
      if (!nodes_.contains(block)) order_.push_back(block);
      nodes_[block].push_back(id);
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const Operand& operand : graph_.nodes[id].operands) {
        const NodeId producer = graph_.values[operand.value].producer;
        if (producer != kNoId && names_[producer] != names_[id]) border_[operand.value] = true;
      }
    }
    for (const Output& output : graph_.outputs) border_[output.value] = true;
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return order_; }
  [[nodiscard]] bool has(const std::string& block) const { return nodes_.contains(block); }

  void recompute(const std::string& block, Recomputation& all) const {
    const std::vector<NodeId>& nodes = nodes_.at(block);
    const auto need = [&](ValueId value) {
      if (value >= graph_.values.size() || border_[value]) return;
      const NodeId producer = graph_.values[value].producer;
      if (producer != kNoId && names_[producer] == block) all.made_again[value] = true;
    };
    NodeId last = kNoId;
    for (const NodeId id : nodes) {
      if (!model_.training.contributions[id].empty()) last = id;
      for (const NodeId backward : model_.backward_of[id]) {
        for (const Operand& operand : model_.training.graph.nodes[backward].operands) need(operand.value);
      }
    }
    for (const NodeId id : nodes) all.begin[id] = last;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.nodes[*id];
      if (std::ranges::none_of(node.results, [&](ValueId result) { return all.made_again[result]; })) continue;
      all.runs_again[*id] = true;
      for (const Operand& operand : node.operands) need(operand.value);
    }
  }

 private:
  [[nodiscard]] bool is_trained(NodeId id) const {
    return std::ranges::any_of(graph_.nodes[id].results, [&](ValueId result) { return graph_.values[result].requires_gradient; });
  }

  const Graph& graph_;
  const TrainingAnalysis& model_;
  std::vector<std::string> names_;  // by node; "" of what is in no block
  std::vector<std::string> order_;
  std::map<std::string, std::vector<NodeId>> nodes_;
  std::vector<bool> border_;  // by value: somebody outside of its maker's block uses it
};

Recomputation nothing_of(const Graph& graph) {
  return {std::vector<bool>(graph.nodes.size(), false), std::vector<bool>(graph.values.size(), false), std::vector<NodeId>(graph.nodes.size(), kNoId)};
}

}  // namespace

std::vector<std::string> recomputable_blocks(const ModelAnalysis& model) {
  if (!model.backward) return {};
  const Blocks blocks(model);
  std::vector<std::string> names;
  for (const std::string& name : blocks.names()) {
    Recomputation alone = nothing_of(*model.graph);
    blocks.recompute(name, alone);
    if (std::ranges::find(alone.runs_again, true) != alone.runs_again.end()) names.push_back(name);
  }
  return names;
}

Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& blocks) {
  if (blocks.empty()) return Recomputation{};
  if (!model.backward) return model.no_backward;
  const Blocks all(model);
  Recomputation made = nothing_of(*model.graph);
  for (const std::string& name : blocks) {
    if (!all.has(name)) return bad_input("the model has no block '" + name + "' that could run again for its backward");
    all.recompute(name, made);
  }
  return made;
}

}  // namespace meshwright
