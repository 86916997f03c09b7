// Whether a plan from a file is one of its own model.
#include <algorithm>

#include "meshwright/plan.h"
#include "plan/outline.h"
#include "plan/plan_index.h"
#include "strategy/enumerate.h"

namespace meshwright {

namespace {

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan), graph_(plan.graph()), index_(plan) {}

  Status run() {
    for (const PlannedVariable& variable : plan_.variables) {
      Status status = check_fits(variable);
      BackwardNeeds& needs = needs_.emplace_back();
      if (status && variable.node() != nullptr) status = check_node(*variable.node(), needs);
      if (!status) return add_context("the plan's variable '" + plan_.name(variable) + "'", status.error());
    }
    if (Status status = check_complete(); !status) return status;
    for (const PlannedConstant& constant : plan_.constants) {
      if (Status status = check_constant(constant); !status) return add_context("the plan's constant '" + plan_.name(constant.value) + "'", status.error());
    }
    return check_conversions();
  }

 private:
  Status check_fits(const Layout& layout, ValueId value, bool partial) const {
    if (!fits(layout, plan_.shape(value), plan_.mesh)) {
      return bad_input("'" + plan_.name(value) + "' cannot lie as " + to_string(layout, plan_.shape(value)) + " on a mesh " + to_string(plan_.mesh));
    }
    if (layout.has_partial() && !partial) return bad_input("'" + plan_.name(value) + "' is kept as a partial sum");
    return Done{};
  }

  Status check_fits(const PlannedVariable& variable) const {
    if (const PlannedParameter* parameter = variable.parameter()) {
      for (const Layout* layout : {&parameter->stored.value, &parameter->stored.gradient, &parameter->compute, &parameter->state}) {
        if (Status status = check_fits(*layout, parameter->value, false); !status) return status;
      }
      return Done{};
    }
    if (variable.node() != nullptr) return Done{};
    const auto* fork = std::get_if<PlannedFork>(&variable.choice);
    const ValueId value = fork != nullptr ? fork->value : std::get<PlannedOutput>(variable.choice).value;
    const PortLayouts& layouts = fork != nullptr ? fork->layouts : std::get<PlannedOutput>(variable.choice).layouts;
    if (Status status = check_fits(layouts.value, value, fork != nullptr); !status) return status;
    return check_fits(layouts.gradient, value, fork != nullptr);
  }

  Status check_node(const PlannedNode& planned, BackwardNeeds& needs) const {
    const Node& node = graph_.nodes[planned.node];
    const std::optional<CallLayouts> derived = derive_layouts(graph_, *plan_.model.atoms, planned.node, plan_.mesh, planned.call.axes);
    const auto same = [&](ValueId value, const PortLayouts& a, const PortLayouts& b) {
      return a.value == b.value && (!graph_.values[value].requires_gradient || a.gradient == b.gradient);
    };
    bool follows = derived.has_value();
    for (std::size_t i = 0; follows && i < node.operands.size(); ++i) follows = same(node.operands[i].value, derived->operands[i], planned.call.operands[i]);
    for (std::size_t i = 0; follows && i < node.results.size(); ++i) follows = same(node.results[i], derived->results[i], planned.call.results[i]);
    if (!follows) {
      return bad_input("its layouts do not follow from its axes and the rule " + to_string(plan_.model.atoms->nodes[planned.node].rule) +
                       "; was the plan made with other op families?");
    }
    if (!plan_.model.backward) return Done{};
    std::vector<std::vector<AxisChoice>> axes;
    for (const CallLayouts& call : planned.backward) axes.push_back(call.axes);
    const BackwardAxes backward(*plan_.model.backward, plan_.mesh, planned.node);
    if (backward.derive(planned.call, axes) != planned.backward) {
      return bad_input("the layouts of its backward do not follow from its axes; was the plan made with other op families?");
    }
    needs = backward.needs(planned.call, planned.backward);
    return Done{};
  }

  // Everything differentiable has its variable.
  Status check_complete() const {
    const auto missing = [](const std::string& name) { return bad_input("the plan says nothing of '" + name + "'"); };
    const auto is_planned = [&](ValueId id) { return index_.parameter(id) != nullptr || index_.fork(id) != nullptr; };
    std::map<ValueId, int> uses;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      const auto differentiable = [&](ValueId value) { return graph_.values[value].requires_gradient; };
      if (std::none_of(node.results.begin(), node.results.end(), differentiable)) continue;
      if (index_.node(id) == nullptr) return missing(node.name);
      for (const Operand& operand : node.operands) {
        const Value& value = graph_.values[operand.value];
        if (value.producer == kNoId && value.requires_gradient && !is_planned(operand.value)) return missing(value.name);
        ++uses[operand.value];
      }
    }
    for (const Output& output : graph_.outputs) {
      const Value& value = graph_.values[output.value];
      if (!value.requires_gradient) continue;
      if (index_.output(output.value) == nullptr) return missing("output " + value.name);
      if (value.producer == kNoId && !is_planned(output.value)) return missing(value.name);
      ++uses[output.value];
    }
    for (const auto& [value, count] : uses) {
      if (count > 1 && graph_.values[value].requires_gradient && index_.fork(value) == nullptr) return missing(graph_.values[value].name);
    }
    return Done{};
  }

  // What its maker yields may be cut, and no more.
  Status check_constant(const PlannedConstant& constant) const {
    const Graph& graph = training_graph(plan_.model);
    const AtomizedGraph& atoms = training_atoms(plan_.model);
    const NodeId producer = graph.values[constant.value].producer;
    if (producer == kNoId) return bad_input("nothing makes it");
    const std::optional<CallLayouts> derived = derive_layouts(graph, atoms, producer, plan_.mesh, constant.made.axes);
    if (!derived || *derived != constant.made) return bad_input("its layouts do not follow from its axes; was the plan made with other op families?");
    return check_fits(constant.wanted, constant.value, true);
  }

  Status check_conversions() const {
    const Result<Outline> outline = outline_of(plan_, needs_, [&](ValueId value, const Layout& wanted) { return index_.constant(value, wanted); });
    if (!outline) return outline.error();
    std::vector<bool> needed(plan_.conversions.size(), false);
    for (const PlannedConversion& conversion : outline->conversions) {
      const std::uint32_t at = find(conversion);
      if (at == kNoId) return say(conversion, "the plan has no conversion from " + text(conversion.source, conversion) + " to " + text(conversion.target, conversion));
      const PlannedConversion& planned = plan_.conversions[at];
      needed[at] = true;
      if (planned.from != conversion.from || planned.to != conversion.to || planned.to_port != conversion.to_port) return say(planned, "it joins other variables than the model does");
      if (planned.hides != conversion.hides) return say(planned, planned.hides ? "it is said to run beside the computing, and is waited for" : "it is said to be waited for, and runs beside the computing");
      if (planned.times != conversion.times) {
        return say(planned, "it is said to run " + std::to_string(planned.times) + " times in a step, and runs " + std::to_string(conversion.times));
      }
    }
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const PlannedConversion& planned = plan_.conversions[i];
      if (!needed[i]) return say(planned, "nothing needs it from " + text(planned.source, planned) + " to " + text(planned.target, planned));
      if (Status status = check_moves(planned); !status) return status;
    }
    return Done{};
  }

  [[nodiscard]] std::uint32_t find(const PlannedConversion& of) const {
    return of.gradient ? index_.gradient_conversion(of.value, of.from, of.to_port, of.source, of.target) : index_.conversion(of.value, of.hides, of.source, of.target);
  }

  [[nodiscard]] std::string text(const Layout& layout, const PlannedConversion& of) const { return to_string(layout, plan_.shape(of.value)); }

  [[nodiscard]] Error say(const PlannedConversion& of, const std::string& what) const {
    return bad_input("the plan's conversion of '" + plan_.name(of.value) + "': " + what);
  }

  Status check_moves(const PlannedConversion& planned) const {
    const CostProfile unpriced;
    const ConversionProblem problem = plan_.problem(planned, unpriced);
    const Layout* here = &planned.source;
    for (const PlannedMove& one : planned.moves) {
      const Move& move = one.move;
      const std::optional<Move> known = find_move(problem, *here, move);
      if (!known || *known != move) return say(planned, std::string("no ") + name(move.kind) + " leads from " + text(*here, planned) + " to " + text(move.result, planned));
      here = &move.result;
    }
    if (*here == planned.target) return Done{};
    return say(planned, "its moves end in " + text(*here, planned) + ", and it is said to end in " + text(planned.target, planned));
  }

  const Plan& plan_;
  const Graph& graph_;
  const PlanIndex index_;
  std::vector<BackwardNeeds> needs_;  // by variable
};

}  // namespace

Status validate(const Plan& plan) { return Checker(plan).run(); }

}  // namespace meshwright
