#include "meshwright/recompute.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
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

// "40 ops (mul 24, layer_norm 16)", by how many there are of each.
std::string text_of_ops(const std::map<std::string, int>& counts) {
  int all = 0;
  std::vector<std::pair<int, std::string>> kinds;
  for (const auto& [op, count] : counts) {
    all += count;
    kinds.emplace_back(-count, op);
  }
  std::ranges::sort(kinds);
  std::string text = std::to_string(all) + " ops (";
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i) text += (i > 0 ? ", " : "") + kinds[i].second + " " + std::to_string(-kinds[i].first);
  return text + (kinds.size() > kMostKinds ? " ...)" : ")");
}

// What the name of an operand says; nothing for another name.
struct OperandText {
  std::string node;
  std::uint32_t port = 0;
};

std::optional<OperandText> read_operand_name(const std::string& name) {
  constexpr std::size_t kMostDigits = 6;
  const std::size_t colon = name.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string digits = name.substr(colon + 1);
  if (digits.empty() || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return OperandText{name.substr(0, colon), static_cast<std::uint32_t>(std::stoul(digits))};
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

  // What names stand for.
  struct Named {
    std::vector<bool> ops;
    std::set<NodeOperand> operands;
  };

  [[nodiscard]] Result<Named> named(const std::vector<std::string>& names) const {
    Named chosen{std::vector<bool>(graph_.nodes.size(), false), {}};
    for (const std::string& name : names) {
      if (Status status = mark(name, chosen); !status) return status.error();
    }
    return chosen;
  }

  [[nodiscard]] Recomputation recompute(std::vector<bool> chosen, const std::set<NodeOperand>& operands = {}) const {
    follow_storages(chosen);
    for (const auto& [id, port] : operands) choose_views(graph_.nodes[id].operands[port].value, of_node_[id], chosen);
    Recomputation made{std::vector<bool>(graph_.nodes.size(), false), std::vector<bool>(graph_.values.size(), false), std::vector<NodeId>(graph_.nodes.size(), kNoId), {}, {}};
    for (const RecomputableBlock& block : blocks_) recompute(block, chosen, made);
    for (const auto& [id, port] : operands) {
      const ValueId value = graph_.nodes[id].operands[port].value;
      if (made.runs(id) || made.makes(value)) continue;  // converts it anyway
      made.converted_again.insert({id, port});
      made.values_converted.insert(value);
    }
    return made;
  }

  [[nodiscard]] bool is_convertible(const NodeOperand& operand) const {
    const auto& [id, port] = operand;
    return of_node_[id] != kNone && model_.memory.nodes[id].saves_operand[port] && has_copies(graph_.nodes[id].operands[port].value);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Marks the ops that a name stands for.
  Status mark(const std::string& name, Named& chosen) const {
    for (const RecomputableBlock& block : blocks_) {
      if (block.name != name) continue;
      for (const NodeId id : block.nodes) chosen.ops[id] = true;
      return Done{};
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_.nodes[id].name != name) continue;
      if (of_node_[id] == kNone) return bad_input("'" + name + "' has no gradient or stands in no block, and so cannot run again for its backward");
      if (is_view(id)) return bad_input("'" + name + "' is a view, and made again with what it shows; name what makes that");
      chosen.ops[id] = true;
      return Done{};
    }
    if (const std::optional<OperandText> operand = read_operand_name(name)) {
      const auto node = std::ranges::find(graph_.nodes, operand->node, &Node::name);
      if (node != graph_.nodes.end()) return mark_operand(name, {static_cast<NodeId>(node - graph_.nodes.begin()), operand->port}, chosen);
    }
    return bad_input("the model has no block '" + name + "' that could run again for its backward, and no op of that name in one");
  }

  // An op takes a value once for its backward, whichever of its operands it is.
  Status mark_operand(const std::string& name, const NodeOperand& operand, Named& chosen) const {
    const auto& [id, port] = operand;
    const Node& node = graph_.nodes[id];
    if (port >= node.operands.size() || !is_convertible(operand)) return bad_input(why_not(name, operand) + could_be(id));
    for (std::uint32_t other = 0; other < node.operands.size(); ++other) {
      if (node.operands[other].value == node.operands[port].value && is_convertible({id, other})) chosen.operands.insert({id, other});
    }
    return Done{};
  }

  [[nodiscard]] std::string why_not(const std::string& name, const NodeOperand& operand) const {
    const auto& [id, port] = operand;
    const std::string cannot = "'" + name + "' cannot be converted again for its backward: ", op = "'" + graph_.nodes[id].name + "'";
    if (port >= graph_.nodes[id].operands.size()) return cannot + op + " has " + std::to_string(graph_.nodes[id].operands.size()) + " operands, counted from 0";
    if (of_node_[id] == kNone) return cannot + op + " has no gradient or stands in no block";
    if (!model_.memory.nodes[id].saves_operand[port]) return cannot + "the backward of " + op + " does not take it";
    const ValueId value = graph_.nodes[id].operands[port].value;
    if (!graph_.values[value].requires_gradient) return cannot + "'" + graph_.values[value].name + "' has no gradient, and each use makes its own";
    return cannot + "it is a parameter, whose gathering again is chosen with its sharding (search.regather)";
  }

  [[nodiscard]] std::string could_be(NodeId id) const {
    std::string names;
    for (std::uint32_t port = 0; port < graph_.nodes[id].operands.size(); ++port) {
      if (is_convertible({id, port})) names += (names.empty() ? "'" : ", '") + operand_name(graph_, {id, port}) + "'";
    }
    return names.empty() ? "; none of its operands could be" : "; could be: " + names;
  }

  // Whether it has a gradient, and is neither a parameter nor a view of one.
  [[nodiscard]] bool has_copies(ValueId value) const {
    if (!graph_.values[value].requires_gradient) return false;
    ValueId shown = value;
    for (NodeId producer = graph_.values[shown].producer; producer != kNoId && is_view(producer); producer = graph_.values[shown].producer) {
      shown = graph_.nodes[producer].operands[0].value;
    }
    if (graph_.values[shown].producer != kNoId) return true;
    const auto source = std::ranges::find(graph_.sources, shown, &Source::value);
    return source == graph_.sources.end() || source->kind != SourceKind::parameter;
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

  // A value that is to be converted again may be a view of what is converted.
  void choose_views(ValueId value, std::size_t block, std::vector<bool>& chosen) const {
    for (NodeId producer = graph_.values[value].producer; producer != kNoId && !border_[value] && is_view(producer) && of_node_[producer] == block;
         producer = graph_.values[value].producer) {
      chosen[producer] = true;
      value = graph_.nodes[producer].operands[0].value;
    }
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
      if (model.backward->memory.nodes[id].saves_operand[port] && !recomputation.converts(id, port)) made[operands[port].value].emplace_back(id, port);
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

std::set<NodeOperand> convertible_operands(const ModelAnalysis& model) {
  if (!model.backward) return {};
  const Blocks blocks(model);
  std::set<NodeOperand> made;
  for (NodeId id = 0; id < model.graph->nodes.size(); ++id) {
    for (std::uint32_t port = 0; port < model.graph->nodes[id].operands.size(); ++port) {
      if (blocks.is_convertible({id, port})) made.insert({id, port});
    }
  }
  return made;
}

std::string operand_name(const Graph& graph, const NodeOperand& operand) { return graph.nodes[operand.first].name + ":" + std::to_string(operand.second); }

Result<std::vector<bool>> ops_named(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (!model.backward) return model.no_backward;
  Result<Blocks::Named> named = Blocks(model).named(names);
  if (!named) return named.error();
  return std::move(named->ops);
}

Result<std::set<NodeOperand>> operands_named(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (!model.backward) return model.no_backward;
  Result<Blocks::Named> named = Blocks(model).named(names);
  if (!named) return named.error();
  return std::move(named->operands);
}

std::vector<std::string> recomputed_names(const ModelAnalysis& model, const std::vector<bool>& ops, const std::set<NodeOperand>& operands) {
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
  for (const NodeOperand& operand : operands) names.push_back(operand_name(*model.graph, operand));
  return names;
}

std::string recomputed_text(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::vector<std::string> blocks = recomputable_blocks(model);
  std::map<std::string, std::string> op_of;
  for (const Node& node : model.graph->nodes) op_of[node.name] = short_name(node.op);
  std::size_t whole = 0, converted = 0;
  std::map<std::string, int> counts;
  for (const std::string& name : names) {
    if (std::ranges::find(blocks, name) != blocks.end()) ++whole;
    else if (op_of.contains(name)) ++counts[op_of[name]];
    else ++converted;
  }
  std::string text;
  if (whole > 0) text = std::to_string(whole) + " of " + std::to_string(blocks.size()) + " blocks";
  if (!counts.empty()) text += (whole > 0 ? " and " : "") + text_of_ops(counts);
  if (!text.empty()) text = "The forward of " + text + " runs again for the backward";
  if (converted == 0) return text;
  const std::string inputs = std::to_string(converted) + (converted == 1 ? " input is" : " inputs are") + " converted again";
  return text.empty() ? inputs + " for the backward" : text + ", and " + inputs;
}

Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& names) {
  if (names.empty()) return Recomputation{};
  if (!model.backward) return model.no_backward;
  const Blocks all(model);
  Result<Blocks::Named> chosen = all.named(names);
  if (!chosen) return chosen.error();
  return all.recompute(std::move(chosen->ops), chosen->operands);
}

}  // namespace meshwright
