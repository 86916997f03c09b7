#include "block_choices.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "meshwright/gather_units.h"
#include "meshwright/recompute.h"

namespace meshwright {

namespace {

std::string layout_key(const Layout& layout) {
  std::string text;
  for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
    const Placement here = layout[axis];
    text += here.is_shard() ? "S" + std::to_string(here.atom()) : here.is_replicate() ? "R" : here == Placement::partial_sum() ? "P" : "M";
  }
  return text;
}

std::string ports_key(const PortLayouts& layouts) { return layout_key(layouts.value) + "/" + layout_key(layouts.gradient) + " "; }

std::string call_key(const CallLayouts& call) {
  std::string text = "(";
  for (const AxisChoice& axis : call.axes) {
    for (const int part : {static_cast<int>(axis.use), static_cast<int>(axis.factor), static_cast<int>(axis.atom), static_cast<int>(axis.group)}) text += std::to_string(part) + ".";
    text += " ";
  }
  for (const PortLayouts& port : call.operands) text += ports_key(port);
  text += "> ";
  for (const PortLayouts& port : call.results) text += ports_key(port);
  return text + ")";
}

std::string attribute_key(const Attribute& attribute) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "none";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return held;
        } else if constexpr (std::is_arithmetic_v<T>) {
          return std::to_string(held);
        } else {
          std::string all = "[";
          for (const auto& each : held) all += std::to_string(each) + " ";
          return all + "]";
        }
      },
      attribute);
}

constexpr auto kNoBlock = static_cast<std::size_t>(-1);

// A node of a module that all blocks share (rotary positions) is of the block that alone reads what it makes, if it reads something of it too.
void take_in_shared(const Graph& graph, std::vector<std::size_t>& of_node) {
  constexpr auto kSeveral = kNoBlock - 1;
  std::vector<std::size_t> readers(graph.nodes.size(), kNoBlock);  // the block of all that read it
  const auto read = [&](ValueId value, std::size_t by) {
    const NodeId producer = graph.values[value].producer;
    if (producer == kNoId) return;
    std::size_t& known = readers[producer];
    known = known == kNoBlock || known == by ? by : kSeveral;
  };
  for (const Output& output : graph.outputs) read(output.value, kSeveral);
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    std::size_t by = of_node[id] != kNoBlock ? of_node[id] : readers[id];
    if (by == kNoBlock) by = kSeveral;
    for (const Operand& operand : graph.nodes[id].operands) read(operand.value, by);
  }
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (of_node[id] != kNoBlock || readers[id] >= kSeveral) continue;
    const auto is_own = [&](const Operand& operand) { return graph.values[operand.value].producer != kNoId && of_node[graph.values[operand.value].producer] == readers[id]; };
    if (std::ranges::any_of(graph.nodes[id].operands, is_own)) of_node[id] = readers[id];
  }
}

std::string stage_key(const Plan& plan) { return std::to_string(plan.part.stage); }

}  // namespace

std::vector<ModelBlock> model_blocks(const Graph& graph) {
  std::vector<ModelBlock> blocks;
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> of_node(graph.nodes.size(), kNoBlock);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    std::string name = block_of(graph.nodes[id].module_path);
    if (name.empty()) continue;
    const auto [number, is_new] = numbers.try_emplace(name, blocks.size());
    if (is_new) blocks.push_back({std::move(name), {}, {}, {}});
    of_node[id] = number->second;
  }
  take_in_shared(graph, of_node);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (of_node[id] != kNoBlock) blocks[of_node[id]].nodes.push_back(id);
  }
  std::set<ValueId> handed_on;
  const auto maker = [&](ValueId value) { return graph.values[value].producer == kNoId ? kNoBlock : of_node[graph.values[value].producer]; };
  const auto hand_on = [&](ValueId value) {
    if (maker(value) != kNoBlock && handed_on.insert(value).second) blocks[maker(value)].hands_on.push_back(value);
  };
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (const Operand& operand : graph.nodes[id].operands) {
      if (graph.values[operand.value].producer == kNoId || maker(operand.value) == of_node[id]) continue;
      hand_on(operand.value);
      if (of_node[id] == kNoBlock) continue;
      std::vector<ValueId>& handed = blocks[of_node[id]].handed;
      if (std::ranges::find(handed, operand.value) == handed.end()) handed.push_back(operand.value);
    }
  }
  for (const Output& output : graph.outputs) {
    if (output.kind != OutputKind::buffer_mutation) hand_on(output.value);
  }
  return blocks;
}

BlockChoices::BlockChoices(const Graph& graph, const std::vector<const Plan*>& stages) : graph_(graph) {
  for (const Plan* plan : stages) read(*plan);
}

void BlockChoices::read(const Plan& plan) {
  const std::string stage = stage_key(plan);
  const Result<Recomputation> again = recomputation(plan.model, plan.recomputed);
  for (const Node& node : plan.graph().nodes) stages_of_node_[node.name].push_back(stage);
  for (const PlannedVariable& variable : plan.variables) {
    if (const PlannedNode* node = variable.node()) {
      std::string& text = nodes_[plan.graph().nodes[node->node].name];
      text += "stage " + stage + call_key(node->call);
      for (const CallLayouts& call : node->backward) text += call_key(call);
      if (again && again->runs(node->node)) text += " again";
      for (std::uint32_t port = 0; again && port < node->call.operands.size(); ++port) text += again->converts(node->node, port) ? " again:" + std::to_string(port) : "";
    } else if (const PlannedParameter* parameter = variable.parameter()) {
      std::string& text = values_[{stage, plan.graph().values[parameter->value].name}];
      text += ports_key(parameter->stored) + layout_key(parameter->compute) + " " + layout_key(parameter->state) + " " + std::to_string(static_cast<int>(parameter->zero));
      text += parameter->regather ? "g" : "-";
      text += parameter->prefetch ? "p" : "-";
    } else if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) {
      values_[{stage, plan.graph().values[fork->value].name}] += " fork " + ports_key(fork->layouts);
    }
  }
}

std::string BlockChoices::structure(const ModelBlock& block) const {
  std::map<ValueId, std::string> names;
  std::string text;
  for (const NodeId id : block.nodes) {
    const Node& node = graph_.nodes[id];
    text += node.op + "{";
    for (const auto& [name, attribute] : node.attributes) text += name + "=" + attribute_key(attribute) + " ";
    text += "} ";
    for (const Operand& operand : node.operands) {
      const auto [known, is_new] = names.try_emplace(operand.value, "x" + std::to_string(names.size()));
      text += operand.name + "=" + known->second;
      if (is_new) text += ":" + to_string(graph_.type(operand.value));
      text += " ";
    }
    for (const ValueId result : node.results) {
      const auto [known, is_new] = names.try_emplace(result, "x" + std::to_string(names.size()));
      text += known->second + ":" + to_string(graph_.type(result)) + (graph_.values[result].requires_gradient ? "' " : " ");
    }
    text += "\n";
  }
  return text;
}

std::string BlockChoices::choices(const ModelBlock& block) const {
  std::string text;
  const std::set<ValueId> given(block.hands_on.begin(), block.hands_on.end());
  for (const NodeId id : block.nodes) {
    const Node& node = graph_.nodes[id];
    if (const auto found = nodes_.find(node.name); found != nodes_.end()) text += found->second;
    const auto stages = stages_of_node_.find(node.name);
    if (stages == stages_of_node_.end()) continue;
    // What it hands on lies as those who read it have it.
    const auto say = [&](ValueId value) {
      for (const std::string& stage : stages->second) {
        const auto found = given.contains(value) ? values_.end() : values_.find({stage, graph_.values[value].name});
        if (found != values_.end()) text += found->second + ";";
      }
    };
    for (const Operand& operand : node.operands) say(operand.value);
    for (const ValueId result : node.results) say(result);
    text += "\n";
  }
  return text;
}

}  // namespace meshwright
