#include "meshwright/backward_memory.h"

#include <algorithm>
#include <map>

#include "meshwright/saved.h"

namespace meshwright {

namespace {

class Watcher {
 public:
  Watcher(const Graph& graph, const TrainingGraph& training, const std::vector<ValueId>& owner)
      : forward_(graph), training_(training), owner_(owner), groups_(nodes_of_gradients(training)) {}

  NodeBackward watch(NodeId id) {
    node_ = &forward_.nodes[id];
    made_ = {};
    made_.saves_operand.assign(node_->operands.size(), false);
    made_.holds_operand = made_.passes_gradient = made_.saves_operand;
    made_.saves_result.assign(node_->results.size(), false);
    made_.holds_result = made_.saves_result;
    made_.view = is_view(*node_);
    note_passed(id);
    if (!groups_[id].empty()) follow(id);
    return std::move(made_);
  }

 private:
  struct Storage {
    std::size_t begin = 0, end = 0;  // the first and the last node of the group that has it
    TensorType type;
  };

  void follow(NodeId id) {
    const std::vector<NodeId>& group = groups_[id];
    std::map<ValueId, Storage> storages;
    std::map<ValueId, std::size_t> last_use;  // of what is saved
    for (const ValueId result : node_->results) {
      const ValueId gradient = training_.gradients[result];
      if (gradient != kNoId) storages[owner_[gradient]] = {0, 0, training_.graph.type(gradient)};
    }
    for (std::size_t k = 0; k < group.size(); ++k) {
      const Node& node = training_.graph.nodes[group[k]];
      for (const Operand& operand : node.operands) {
        if (operand.value < forward_.values.size()) last_use[operand.value] = k;
        if (const auto used = storages.find(owner_[operand.value]); used != storages.end()) used->second.end = k;
      }
      for (const ValueId result : node.results) {
        if (owner_[result] == result) storages.try_emplace(result, Storage{k, k, training_.graph.type(result)});
      }
    }
    const std::vector<ValueId>& contributions = training_.contributions[id];
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] == kNoId) continue;
      const auto storage = storages.find(owner_[contributions[i]]);
      if (storage == storages.end()) continue;
      storage->second.end = group.size();
    }
    const std::size_t moment = fullest(group.size(), storages, last_use);
    made_.works = std::ranges::any_of(group, [&](NodeId node) { return !is_view(training_.graph.nodes[node]); });
    for (const auto& [value, storage] : storages) {
      if (storage.begin <= moment && moment <= storage.end) made_.fullest.push_back(like_ports(storage.type));
    }
    note_saved(last_use, moment);
  }

  void note_passed(NodeId id) {
    const std::vector<ValueId>& contributions = training_.contributions[id];
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] == kNoId) continue;
      for (const ValueId result : node_->results) {
        const ValueId gradient = training_.gradients[result];
        if (gradient != kNoId && owner_[gradient] == owner_[contributions[i]]) made_.passes_gradient[i] = true;
      }
    }
  }

  std::size_t fullest(std::size_t size, const std::map<ValueId, Storage>& storages,
                      const std::map<ValueId, std::size_t>& last_use) const {
    std::vector<std::int64_t> held(size, 0);
    for (const auto& [value, storage] : storages) {
      for (std::size_t k = storage.begin; k <= std::min(storage.end, size - 1); ++k) held[k] += storage.type.bytes();
    }
    for (const auto& [value, last] : last_use) {
      for (std::size_t k = 0; k <= last; ++k) held[k] += forward_.type(value).bytes();
    }
    return static_cast<std::size_t>(std::max_element(held.begin(), held.end()) - held.begin());
  }

  [[nodiscard]] bool is_view(const Node& node) const {
    return std::any_of(node.results.begin(), node.results.end(), [&](ValueId result) { return owner_[result] != result; });
  }

  [[nodiscard]] BackwardStorage like_ports(const TensorType& type) const {
    BackwardStorage storage{type.bytes(), {}, {}};
    for (std::uint32_t i = 0; i < node_->operands.size(); ++i) {
      if (forward_.type(node_->operands[i].value).shape == type.shape) storage.operands.push_back(i);
    }
    for (std::uint32_t i = 0; i < node_->results.size(); ++i) {
      if (forward_.type(node_->results[i]).shape == type.shape) storage.results.push_back(i);
    }
    return storage;
  }

  void note_saved(const std::map<ValueId, std::size_t>& last_use, std::size_t moment) {
    for (std::size_t i = 0; i < node_->operands.size(); ++i) {
      const auto used = last_use.find(node_->operands[i].value);
      if (used == last_use.end()) continue;
      made_.saves_operand[i] = true;
      made_.holds_operand[i] = used->second >= moment;
    }
    for (std::size_t i = 0; i < node_->results.size(); ++i) {
      const auto used = last_use.find(node_->results[i]);
      if (used == last_use.end()) continue;
      made_.saves_result[i] = true;
      made_.holds_result[i] = used->second >= moment;
    }
  }

  const Graph& forward_;
  const TrainingGraph& training_;
  const std::vector<ValueId>& owner_;
  std::vector<std::vector<NodeId>> groups_;  // by node of the forward: those of its gradient
  const Node* node_ = nullptr;
  NodeBackward made_;
};

}  // namespace

BackwardMemory backward_memory(const Graph& graph, const TrainingGraph& training, const OpTable& ops) {
  const std::vector<ValueId> owner = storages(training.graph, ops);
  Watcher watcher(graph, training, owner);
  BackwardMemory memory;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) memory.nodes.push_back(watcher.watch(id));
  return memory;
}

}  // namespace meshwright
