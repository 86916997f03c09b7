#include "plan/outline.h"

#include <algorithm>

#include "plan/plan_index.h"
#include "strategy/enumerate.h"

namespace meshwright {

namespace {

class Outlining {
 public:
  Outlining(const Plan& plan, const std::vector<BackwardNeeds>& needs, const FindConstant& find_constant)
      : plan_(plan),
        graph_(training_graph(plan.model)),
        atoms_(training_atoms(plan.model)),
        index_(PlanIndex::of_variables(plan)),
        needs_(needs),
        find_constant_(find_constant),
        whole_(plan.mesh.rank()) {}

  Result<Outline> run() {
    for (std::uint32_t i = 0; i < plan_.variables.size(); ++i) {
      const PlannedVariable& variable = plan_.variables[i];
      if (const PlannedParameter* parameter = variable.parameter()) {
        add_parameter(i, *parameter);
      } else if (const PlannedNode* node = variable.node()) {
        if (Status status = add_node(i, *node); !status) return status.error();
      } else if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) {
        add_use(index_.maker(fork->value), i, 0, fork->value, fork->layouts, has_gradient(plan_.model, fork->value));
      } else {
        const auto& output = std::get<PlannedOutput>(variable.choice);
        add_use(index_.origin(output.value), i, 0, output.value, output.layouts, has_gradient(plan_.model, output.value));
      }
    }
    for (const Output& output : plan_.graph().outputs) {
      if (index_.output(output.value) != nullptr) continue;
      if (Status status = add_constant(output.value, whole_, kNoId, kNoId); !status) return status.error();
    }
    return std::move(outline_);
  }

 private:
  [[nodiscard]] std::int64_t microbatches() const { return plan_.training.microbatches; }

  void add(PlannedConversion conversion) {
    if (conversion.source == conversion.target) return;
    if (index_.add(conversion, static_cast<std::uint32_t>(outline_.conversions.size()))) outline_.conversions.push_back(std::move(conversion));
  }

  // From a variable to one that uses its value, and back.
  void add_use(const PlanIndex::Origin& from, std::uint32_t to, std::uint32_t port, ValueId value, const PortLayouts& needed, bool gradient) {
    if (from.variable == kNoId) return;  // an input, which is there in any layout
    const PlannedParameter* parameter = from.parameter ? plan_.variables[from.variable].parameter() : nullptr;
    add({value, false, from.parameter, from.variable, to, port, from.layouts.value, needed.value, {},
         parameter != nullptr && parameter->regather && is_read_again(to, port) ? 2 * microbatches() : microbatches()});
    if (!gradient) return;
    const bool once = parameter != nullptr && !plan_.training.reduces_each_microbatch(parameter->zero);
    add({value, true, from.parameter, to, from.variable, port, needed.gradient, from.layouts.gradient, {}, once ? 1 : microbatches()});
  }

  // Whether the backward of a user reads the value again; of a fork, that of any user.
  [[nodiscard]] bool is_read_again(std::uint32_t user, std::uint32_t port) const {
    if (!plan_.model.backward) return false;
    const PlannedVariable& variable = plan_.variables[user];
    const auto& nodes = plan_.model.backward->memory.nodes;
    if (const PlannedNode* node = variable.node()) return nodes[node->node].saves_operand[port];
    const auto* fork = std::get_if<PlannedFork>(&variable.choice);
    if (fork == nullptr) return false;
    for (NodeId id = 0; id < plan_.graph().nodes.size(); ++id) {
      const std::vector<Operand>& operands = plan_.graph().nodes[id].operands;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].value == fork->value && index_.node(id) != nullptr && nodes[id].saves_operand[i]) return true;
      }
    }
    return false;
  }

  // What the update changes in shards, where the value, or the reduced gradient, lies otherwise (ZeRO-1 and 2).
  void add_parameter(std::uint32_t at, const PlannedParameter& parameter) {
    if (!has_gradient(plan_.model, parameter.value)) return;
    const auto inside = [&](bool gradient, const Layout& from, const Layout& to) {
      add({parameter.value, gradient, true, at, at, kNoId, from, to, {}, 1});
    };
    inside(true, parameter.stored.gradient, parameter.state);
    inside(false, parameter.stored.value, parameter.state);
    inside(false, parameter.state, parameter.stored.value);
  }

  Status add_node(std::uint32_t at, const PlannedNode& planned) {
    const Node& node = graph_.nodes[planned.node];
    for (std::uint32_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      const Layout handed = handed_layout(atoms_.nodes[planned.node], planned.call, i);
      const PlanIndex::Origin origin = index_.origin(operand);
      if (origin.variable == kNoId && !graph_.values[operand].requires_gradient) {
        if (Status status = add_constant(operand, handed, at, i); !status) return status;
        continue;
      }
      add_use(origin, at, i, operand, planned.call.operands[i], contributes(plan_.model, planned.node, i));
      add({operand, false, false, at, at, kNoId, planned.call.operands[i].value, handed, {}, microbatches()});
    }
    return add_backward(at, needs_[at]);
  }

  Status add_backward(std::uint32_t at, const BackwardNeeds& needs) {
    for (const ConstantUse& use : needs.constants) {
      if (Status status = add_constant(use.value, use.layout, at, kNoId); !status) return status;
    }
    for (const InnerConversion& inner : needs.conversions) {
      add({inner.value, false, false, at, at, kNoId, inner.from, inner.to, {}, microbatches()});
    }
    return Done{};
  }

  // A value without a gradient, for a use of it in one layout.
  Status add_constant(ValueId id, const Layout& wanted, std::uint32_t user, std::uint32_t port) {
    const NodeId producer = graph_.values[id].producer;
    if (producer == kNoId) {
      // What an earlier microbatch left in it.
      if (const Output* left = microbatches() > 1 ? change_of(id) : nullptr) {
        const PlannedOutput* planned = index_.output(left->value);
        add({id, false, false, user, user, kNoId, planned != nullptr ? planned->layouts.value : whole_, wanted, {}, microbatches() - 1});
      }
      return Done{};
    }
    const PlanIndex::Origin maker = index_.maker(id);
    if (maker.variable != kNoId) {
      add({id, false, false, maker.variable, user == kNoId ? maker.variable : user, port, maker.layouts.value, wanted, {}, microbatches()});
      return Done{};
    }
    const CallLayouts* made = index_.constant(id, wanted);
    if (made == nullptr) {
      made = find_constant_(id, wanted);
      if (made == nullptr) return bad_input("nothing says how '" + graph_.values[id].name + "' is made as " + to_string(wanted, atoms_.values[id]));
      PlannedConstant constant{id, wanted, *made};
      index_.add(constant);
      outline_.constants.push_back(std::move(constant));
      made = index_.constant(id, wanted);
      const Node& node = graph_.nodes[producer];
      for (std::uint32_t i = 0; i < node.operands.size(); ++i) {
        if (Status status = add_constant(node.operands[i].value, handed_layout(atoms_.nodes[producer], *made, i), user, kNoId); !status) return status;
      }
    }
    const std::vector<ValueId>& results = graph_.nodes[producer].results;
    const auto at = static_cast<std::size_t>(std::find(results.begin(), results.end(), id) - results.begin());
    add({id, false, false, user, user, kNoId, made->results[at].value, wanted, {}, microbatches()});
    return Done{};
  }

  // The output that is a buffer's next value; null if there is none.
  [[nodiscard]] const Output* change_of(ValueId buffer) const {
    const auto& sources = plan_.graph().sources;
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const Source& here) { return here.value == buffer; });
    for (const Output& output : plan_.graph().outputs) {
      const bool is_own = std::find(source->names.begin(), source->names.end(), output.target) != source->names.end();
      if (output.kind == OutputKind::buffer_mutation && is_own) return &output;
    }
    return nullptr;
  }

  const Plan& plan_;
  const Graph& graph_;
  const AtomizedGraph& atoms_;
  PlanIndex index_;  // its conversions and constants are those of the outline
  const std::vector<BackwardNeeds>& needs_;
  const FindConstant& find_constant_;
  const Layout whole_;
  Outline outline_;
};

}  // namespace

Result<Outline> outline_of(const Plan& plan, const std::vector<BackwardNeeds>& needs, const FindConstant& find_constant) {
  return Outlining(plan, needs, find_constant).run();
}

}  // namespace meshwright
