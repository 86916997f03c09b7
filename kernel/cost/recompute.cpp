#include "meshwright/recompute.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "meshwright/gather_units.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostKinds = 5;

// "mul" of "aten.mul.Tensor".
std::string short_name(const std::string& op) {
  const std::size_t first = op.find('.');
  if (first == std::string::npos) return op;
  return op.substr(first + 1, op.find('.', first + 1) - first - 1);
}

// Which nodes of the forward belong to which block, and what they use of each other.
class Blocks {
 public:
  explicit Blocks(const ModelAnalysis& model) : graph_(*model.graph), model_(*model.backward), of_node_(graph_.nodes.size(), kNone), border_(graph_.values.size(), false) {
    std::map<std::string, std::size_t> numbers;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const std::string block = is_trained(id) ? block_of(graph_.nodes[id].module_path) : "";
      if (block.empty()) continue;
      const auto [number, is_new] = numbers.try_emplace(block, blocks_.size());
      if (is_new) blocks_.push_back({block, {}});
      blocks_[number->second].nodes.push_back(id);
      of_node_[id] = number->second;
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const Operand& operand : graph_.nodes[id].operands) {
        const NodeId producer = graph_.values[operand.value].producer;
        if (producer != kNoId && of_node_[producer] != of_node_[id]) border_[operand.value] = true;
      }
    }
    for (const Output& output : graph_.outputs) border_[output.value] = true;
  }

  [[nodiscard]] const std::vector<RecomputableBlock>& all() const { return blocks_; }

  [[nodiscard]] Result<std::vector<bool>> named(const std::vector<std::string>& names) const {
    std::vector<bool> chosen(graph_.nodes.size(), false);
    for (const std::string& name : names) {
      if (Status status = mark(name, chosen); !status) return status.error();
    }
    return chosen;
  }

  [[nodiscard]] Recomputation recompute(std::vector<bool> chosen) const {
    follow_storages(chosen);
    Recomputation made{std::vector<bool>(graph_.nodes.size(), false), std::vector<bool>(graph_.values.size(), false), std::vector<NodeId>(graph_.nodes.size(), kNoId)};
    for (const RecomputableBlock& block : blocks_) recompute(block, chosen, made);
    return made;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Marks the ops that a name stands for.
  Status mark(const std::string& name, std::vector<bool>& chosen) const {
    for (const RecomputableBlock& block : blocks_) {
      if (block.name != name) continue;
      for (const NodeId id : block.nodes) chosen[id] = true;
      return Done{};
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_.nodes[id].name != name) continue;
      if (of_node_[id] == kNone) return bad_input("'" + name + "' has no gradient or stands in no block, and so cannot run again for its backward");
      if (is_view(id)) return bad_input("'" + name + "' is a view, and made again with what it shows; name what makes that");
      chosen[id] = true;
      return Done{};
    }
    return bad_input("the model has no block '" + name + "' that could run again for its backward, and no op of that name in one");
  }

  // A view is made again with what it shows; one of a parameter, which may be another copy by then, for who runs again.
  void follow_storages(std::vector<bool>& chosen) const {
    std::vector<bool> for_users(chosen.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (is_view(id)) {
        const NodeId shown = graph_.values[graph_.nodes[id].operands[0].value].producer;
        chosen[id] = shown != kNoId && chosen[shown] && of_node_[shown] == of_node_[id];
      }
      for (const Operand& operand : graph_.nodes[id].operands) {
        const NodeId producer = graph_.values[operand.value].producer;
        const bool of_source = producer != kNoId && is_view(producer) && graph_.values[graph_.nodes[producer].operands[0].value].producer == kNoId;
        if (chosen[id] && of_source && of_node_[producer] == of_node_[id]) for_users[producer] = true;
      }
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) chosen[id] = chosen[id] || for_users[id];
  }

  void recompute(const RecomputableBlock& block, const std::vector<bool>& chosen, Recomputation& made) const {
    const auto maker = [&](ValueId value, NodeId user) {  // that would run again for this use; else kNoId
      if (value >= graph_.values.size() || border_[value]) return kNoId;
      const NodeId producer = graph_.values[value].producer;
      return producer != kNoId && chosen[producer] && of_node_[producer] == of_node_[user] ? producer : kNoId;
    };
    std::map<NodeId, NodeId> first_use;  // by maker: whose backward asks for it first
    for (const NodeId id : block.nodes) {
      if (model_.training.contributions[id].empty()) continue;
      for (const NodeId backward : model_.backward_of[id]) {
        for (const Operand& operand : model_.training.graph.nodes[backward].operands) {
          const NodeId made_by = maker(operand.value, id);
          if (made_by == kNoId) continue;
          made.made_again[operand.value] = true;
          first_use[made_by] = id;  // nodes ascend, and the backward descends
        }
      }
    }
    // What runs again together, by its first node.
    std::map<NodeId, NodeId> together;
    const auto root_of = [&](NodeId id) {
      while (together.at(id) != id) id = together.at(id);
      return id;
    };
    for (auto id = block.nodes.rbegin(); id != block.nodes.rend(); ++id) {
      const Node& node = graph_.nodes[*id];
      if (std::ranges::none_of(node.results, [&](ValueId result) { return made.made_again[result]; })) continue;
      made.runs_again[*id] = true;
      together.try_emplace(*id, *id);
      for (const Operand& operand : node.operands) {
        const NodeId made_by = maker(operand.value, *id);
        if (made_by == kNoId) continue;
        made.made_again[operand.value] = true;
        together.try_emplace(made_by, made_by);
        const auto [one, other] = std::minmax({root_of(made_by), root_of(*id)});
        together[other] = one;
      }
    }
    std::map<NodeId, NodeId> begin;
    for (const auto& [made_by, use] : first_use) {
      NodeId& first = begin.try_emplace(root_of(made_by), use).first->second;
      first = std::max(first, use);
    }
    for (const auto& [id, root] : together) made.begin[id] = begin.at(root_of(id));
  }

  [[nodiscard]] bool is_view(NodeId id) const { return model_.memory.nodes[id].view; }
  [[nodiscard]] bool is_trained(NodeId id) const {
    return std::ranges::any_of(graph_.nodes[id].results, [&](ValueId result) { return graph_.values[result].requires_gradient; });
  }

  const Graph& graph_;
  const TrainingAnalysis& model_;
  std::vector<RecomputableBlock> blocks_;
  std::vector<std::size_t> of_node_;  // by node its block's number; kNone
  std::vector<bool> border_;          // by value: somebody outside of its maker's block uses it
};

}  // namespace

std::vector<NodeId> Recomputation::nodes_before(NodeId first) const {
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < begin.size(); ++id) {
    if (begin[id] == first) nodes.push_back(id);
  }
  return nodes;
}

Keepers keepers(const ModelAnalysis& model, const Recomputation& recomputation) {
  Keepers made;
  for (NodeId id = 0; id < recomputation.runs_again.size(); ++id) {
    if (recomputation.runs_again[id]) continue;
    const std::vector<Operand>& operands = model.graph->nodes[id].operands;
    for (std::uint32_t port = 0; port < operands.size(); ++port) {
      if (model.backward->memory.nodes[id].saves_operand[port]) made[operands[port].value].emplace_back(id, port);
    }
  }
  return made;
}

std::vector<RecomputableBlock> blocks_of(const ModelAnalysis& model) {
  if (!model.backward) return {};
  const Blocks blocks(model);
  const Recomputation all = blocks.recompute(std::vector<bool>(model.graph->nodes.size(), true));
  std::vector<RecomputableBlock> made;
  for (const RecomputableBlock& block : blocks.all()) {
    if (std::ranges::any_of(block.nodes, [&](NodeId id) { return all.runs_again[id]; })) made.push_back(block);
  }
  return made;
}

std::vector<std::string> recomputable_blocks(const ModelAnalysis& model) {
  std::vector<std::string> names;
  for (RecomputableBlock& block : blocks_of(model)) names.push_back(std::move(block.name));
  return names;
}

Result<std::vector<bool>> ops_named(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (!model.backward) return model.no_backward;
  return Blocks(model).named(names);
}

std::vector<std::string> recomputed_names(const ModelAnalysis& model, const std::vector<bool>& ops) {
  std::vector<std::string> names;
  if (!model.backward) return names;
  const Blocks blocks(model);
  const Recomputation all = blocks.recompute(std::vector<bool>(ops.size(), true));
  for (const RecomputableBlock& block : blocks.all()) {
    const auto could = [&](NodeId id) { return all.runs_again[id] && !model.backward->memory.nodes[id].view; };
    std::vector<std::string> here;
    for (const NodeId id : block.nodes) {
      if (could(id) && ops[id]) here.push_back(model.graph->nodes[id].name);
    }
    if (!here.empty() && std::cmp_equal(here.size(), std::ranges::count_if(block.nodes, could))) here = {block.name};
    names.insert(names.end(), here.begin(), here.end());
  }
  return names;
}

std::string recomputed_text(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::vector<std::string> blocks = recomputable_blocks(model);
  std::map<std::string, std::string> op_of;
  for (const Node& node : model.graph->nodes) op_of[node.name] = short_name(node.op);
  std::size_t whole = 0;
  std::map<std::string, int> counts;
  for (const std::string& name : names) {
    if (std::ranges::find(blocks, name) != blocks.end()) ++whole;
    else ++counts[op_of[name]];
  }
  std::string text;
  if (whole > 0) text = std::to_string(whole) + " of " + std::to_string(blocks.size()) + " blocks";
  if (whole == names.size()) return text;
  std::vector<std::pair<int, std::string>> kinds;
  for (const auto& [op, count] : counts) kinds.emplace_back(-count, op);
  std::ranges::sort(kinds);
  text += (whole > 0 ? " and " : "") + std::to_string(names.size() - whole) + " ops (";
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i) text += (i > 0 ? ", " : "") + kinds[i].second + " " + std::to_string(-kinds[i].first);
  return text + (kinds.size() > kMostKinds ? " ...)" : ")");
}

Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (names.empty()) return Recomputation{};
  if (!model.backward) return model.no_backward;
  const Blocks all(model);
  Result<std::vector<bool>> chosen = all.named(names);
  if (!chosen) return chosen.error();
  return all.recompute(std::move(*chosen));
}

}  // namespace meshwright
