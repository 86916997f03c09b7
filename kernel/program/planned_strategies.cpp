#include "program/planned_strategies.h"

#include <algorithm>

#include "program/planned_conversions.h"
#include "strategy/enumerate.h"

namespace meshwright {

namespace {

class StrategyReader {
 public:
  StrategyReader(const Plan& plan, const AtomizedGraph& atoms) : plan_(plan), atoms_(atoms) {}

  Result<PlannedStrategies> run() {
    read_.nodes.resize(plan_.graph->nodes.size());
    for (NodeId id = 0; id < plan_.graph->nodes.size(); ++id) nodes_[plan_.graph->nodes[id].name] = id;
    for (ValueId id = 0; id < plan_.graph->values.size(); ++id) values_[plan_.graph->values[id].name] = id;
    for (const Source& source : plan_.graph->sources) {
      if (source.kind == SourceKind::parameter && !source.names.empty()) values_[source.names[0]] = source.value;
    }
    for (const PlannedVariable& variable : plan_.variables) {
      Status status = variable.kind == VariableKind::node ? read_node(variable) : read_value(variable);
      if (!status) return add_context("the plan's variable '" + variable.name + "'", status.error());
    }
    if (Status status = check_conversions(plan_, atoms_, values_); !status) return status.error();
    if (Status status = check_complete(); !status) return status.error();
    return std::move(read_);
  }

 private:
  Result<PortLayouts> layouts(const PlannedPort& port, ValueId value) const {
    const std::size_t rank = plan_.mesh.rank();
    Result<Layout> forward = parse_layout(port.layout, atoms_.values[value], rank);
    if (!forward) return forward.error();
    PortLayouts read{*forward, Layout(rank)};
    if (!port.gradient_layout.empty()) {
      Result<Layout> gradient = parse_layout(port.gradient_layout, atoms_.values[value], rank);
      if (!gradient) return gradient.error();
      read.gradient = *gradient;
    }
    for (const Layout* layout : {&read.value, &read.gradient}) {
      if (!fits(*layout, atoms_.values[value], plan_.mesh)) {
        return bad_input("'" + port.value + "' cannot lie as " + to_string(*layout, atoms_.values[value]) + " on a mesh " +
                         to_string(plan_.mesh));
      }
    }
    return read;
  }

  // The choice behind "b", "k.1", "t>e", "repeat", "partial forward", "partial backward".
  static Result<AxisChoice> choice(const std::string& text, const AtomizedNode& node, const Strategy& strategy, std::size_t axis) {
    AxisChoice choice;
    if (text == "repeat") return choice;
    if (text == "partial backward") {
      choice.use = AxisUse::pass_backward;
      return choice;
    }
    if (text == "partial forward") {
      choice.use = AxisUse::pass_forward;
      for (std::size_t group = 0; group < node.rule.linear.size(); ++group) {
        bool partial = true;
        for (const std::uint32_t operand : node.rule.linear[group]) partial &= strategy.operands[operand].value[axis].is_partial();
        if (!partial) continue;
        choice.group = static_cast<std::uint8_t>(group);
        return choice;
      }
      return bad_input("no operands in which the op is linear are partial over axis " + std::to_string(axis));
    }
    std::vector<bool> none(node.rule.operands.size(), false);  // what passes partial values was read above
    for (const AxisChoice& known : axis_choices(node, none)) {
      if (to_string(known, node) == text) return known;
    }
    return bad_input("the op's rule has no factor '" + text + "' to shard; it is " + to_string(node.rule));
  }

  Status read_node(const PlannedVariable& variable) {
    const auto found = nodes_.find(variable.name);
    if (found == nodes_.end()) return bad_input("the graph has no such node");
    const Node& node = plan_.graph->nodes[found->second];
    if (variable.operands.size() != node.operands.size() || variable.results.size() != node.results.size() ||
        variable.axes.size() != plan_.mesh.rank()) {
      return bad_input("its operands, results or axes are not as many as the node's and the mesh's");
    }
    Strategy strategy;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      Result<PortLayouts> read = layouts(variable.operands[i], node.operands[i].value);
      if (!read) return read.error();
      strategy.operands.push_back(*read);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      Result<PortLayouts> read = layouts(variable.results[i], node.results[i]);
      if (!read) return read.error();
      strategy.results.push_back(*read);
    }
    for (std::size_t axis = 0; axis < variable.axes.size(); ++axis) {
      Result<AxisChoice> read = choice(variable.axes[axis], atoms_.nodes[found->second], strategy, axis);
      if (!read) return read.error();
      strategy.axes.push_back(*read);
    }
    if (Status status = check_follows(found->second, strategy); !status) return status;
    read_.nodes[found->second] = std::move(strategy);
    return Done{};
  }

  Status read_value(const PlannedVariable& variable) {
    const bool output = variable.kind == VariableKind::output;
    const std::vector<PlannedPort>& ports = output ? variable.operands : variable.results;
    if (ports.size() != 1) return bad_input("one port is expected");
    const auto found = values_.find(ports[0].value);
    if (found == values_.end()) return bad_input("the graph has no value '" + ports[0].value + "'");
    Result<PortLayouts> read = layouts(ports[0], found->second);
    if (!read) return read.error();
    if (output) read_.outputs[found->second] = read->value;
    else if (variable.kind == VariableKind::fork) read_.forks[found->second] = *read;
    else return read_store(variable, found->second, read->value);
    return Done{};
  }

  Status read_store(const PlannedVariable& variable, ValueId id, const Layout& value) {
    PlannedStore store{value, value, variable.zero, variable.regather, variable.prefetch};
    if (!variable.state_layout.empty()) {
      Result<Layout> state = parse_layout(variable.state_layout, atoms_.values[id], plan_.mesh.rank());
      if (!state) return state.error();
      if (!fits(*state, atoms_.values[id], plan_.mesh) || state->has_partial()) {
        return bad_input("the optimizer's state cannot lie as " + variable.state_layout + " on a mesh " + to_string(plan_.mesh));
      }
      store.state = *state;
    }
    read_.stored[id] = store;
    return Done{};
  }

  // The layouts are those that follow from the axes and the op's rule.
  Status check_follows(NodeId id, const Strategy& strategy) const {
    const Node& node = plan_.graph->nodes[id];
    std::vector<const AtomShape*> operands, results;
    for (const Operand& operand : node.operands) operands.push_back(&atoms_.values[operand.value]);
    for (const ValueId result : node.results) results.push_back(&atoms_.values[result]);
    const std::optional<Strategy> derived = derive_strategy(atoms_.nodes[id], plan_.mesh, operands, results, strategy.axes);
    const auto same = [&](ValueId value, const PortLayouts& a, const PortLayouts& b) {
      return a.value == b.value && (!plan_.graph->values[value].requires_gradient || a.gradient == b.gradient);
    };
    bool follows = derived.has_value();
    for (std::size_t i = 0; follows && i < node.operands.size(); ++i) {
      follows = same(node.operands[i].value, derived->operands[i], strategy.operands[i]);
    }
    for (std::size_t i = 0; follows && i < node.results.size(); ++i) {
      follows = same(node.results[i], derived->results[i], strategy.results[i]);
    }
    if (follows) return Done{};
    return bad_input("its layouts do not follow from its axes and the rule " + to_string(atoms_.nodes[id].rule) +
                     "; was the plan made with other op families?");
  }

  // Of a parameter, or of an input whose gradient is wanted: how it lies is planned.
  [[nodiscard]] bool has_layouts(ValueId id) const { return read_.stored.contains(id) || read_.forks.contains(id); }

  // Everything differentiable has its variable.
  Status check_complete() const {
    const auto missing = [](const std::string& name) { return bad_input("the plan says nothing of '" + name + "'"); };
    for (NodeId id = 0; id < plan_.graph->nodes.size(); ++id) {
      const Node& node = plan_.graph->nodes[id];
      const auto differentiable = [&](ValueId value) { return plan_.graph->values[value].requires_gradient; };
      if (std::none_of(node.results.begin(), node.results.end(), differentiable)) continue;
      if (!read_.nodes[id]) return missing(node.name);
      for (const Operand& operand : node.operands) {
        const Value& value = plan_.graph->values[operand.value];
        const bool source = value.producer == kNoId && value.requires_gradient;
        if (source && !has_layouts(operand.value)) return missing(value.name);
      }
    }
    for (const Output& output : plan_.graph->outputs) {
      const Value& value = plan_.graph->values[output.value];
      if (value.requires_gradient && !read_.outputs.contains(output.value)) return missing("output " + value.name);
      if (value.producer != kNoId || !value.requires_gradient || has_layouts(output.value)) continue;
      return missing(value.name);
    }
    for (const auto& [id, store] : read_.stored) {
      if (store.value.has_partial()) return bad_input("parameter '" + plan_.graph->values[id].name + "' is stored as a partial sum");
    }
    return Done{};
  }

  const Plan& plan_;
  const AtomizedGraph& atoms_;
  std::map<std::string, NodeId, std::less<>> nodes_;
  std::map<std::string, ValueId, std::less<>> values_;
  PlannedStrategies read_;
};

}  // namespace

Result<PlannedStrategies> read_strategies(const Plan& plan, const AtomizedGraph& atoms) {
  return StrategyReader(plan, atoms).run();
}

}  // namespace meshwright
