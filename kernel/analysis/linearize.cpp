#include "meshwright/linearize.h"

#include <algorithm>
#include <utility>

#include "meshwright/saved.h"

namespace meshwright {

namespace {

class Linearizer {
 public:
  Linearizer(const ModelAnalysis& model, const OpTable& ops) : graph_(*model.graph), backward_(*model.backward) {
    chain_.owner = storages(graph_, ops);
    chain_.stage_of.resize(graph_.nodes.size());
    for (const Node& node : graph_.nodes) {
      chain_.is_common.push_back(std::ranges::none_of(node.results, [&](ValueId id) { return graph_.values[id].requires_gradient; }));
    }
    find_users();
    is_kept_.assign(graph_.values.size(), false);
    for (const ValueId id : backward_.training.saved) {
      if (id < is_kept_.size()) is_kept_[chain_.owner[id]] = true;
    }
  }

  ModelChain run() {
    std::size_t pending = 0;  // uses of results of the nodes so far, common ones left out
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      pending -= uses_of_others(id);
      stage_.nodes.push_back(id);
      chain_.stage_of[id] = static_cast<std::uint32_t>(chain_.stages.size());
      if (chain_.is_common[id]) continue;
      if (pending == 0 && !users_[id].empty() && !is_joined_by_its_user(id)) end_stage(id);
      pending += users_[id].size();
    }
    if (!stage_.nodes.empty()) chain_.stages.push_back(std::move(stage_));
    return std::move(chain_);
  }

 private:
  void find_users() {
    users_.resize(graph_.nodes.size());
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const Operand& operand : graph_.nodes[id].operands) {
        const NodeId producer = graph_.values[operand.value].producer;
        if (producer != kNoId && (users_[producer].empty() || users_[producer].back() != id)) users_[producer].push_back(id);
      }
    }
  }

  // Nodes that are not common and that this one uses.
  [[nodiscard]] std::size_t uses_of_others(NodeId id) const {
    std::vector<NodeId> producers;
    for (const Operand& operand : graph_.nodes[id].operands) {
      const NodeId producer = graph_.values[operand.value].producer;
      if (producer != kNoId && !chain_.is_common[producer]) producers.push_back(producer);
    }
    std::ranges::sort(producers);
    return producers.size() - std::ranges::unique(producers).size();
  }

  // Whether the next op could work in place on what this one makes.
  [[nodiscard]] bool is_joined_by_its_user(NodeId id) const {
    if (users_[id].size() != 1) return false;
    if (backward_.memory.nodes[users_[id].front()].view) return true;
    return std::ranges::none_of(graph_.nodes[id].results, [&](ValueId result) { return is_kept_[chain_.owner[result]]; });
  }

  void end_stage(NodeId last) {
    for (const ValueId result : graph_.nodes[last].results) {
      const auto uses_result = [&](NodeId user) {
        return std::ranges::any_of(graph_.nodes[user].operands, [&](const Operand& operand) { return operand.value == result; });
      };
      if (std::ranges::any_of(users_[last], uses_result)) stage_.results.push_back(result);
    }
    chain_.stages.push_back(std::exchange(stage_, {}));
  }

  const Graph& graph_;
  const TrainingAnalysis& backward_;
  ModelChain chain_;
  ModelStage stage_;                         // that is not at its end
  std::vector<std::vector<NodeId>> users_;   // by node, ascending
  std::vector<bool> is_kept_;                // by value that owns a storage: a backward takes something of it
};

}  // namespace

ModelChain linearize(const ModelAnalysis& model, const OpTable& ops) { return Linearizer(model, ops).run(); }

}  // namespace meshwright
