#include <algorithm>

#include "meshwright/plan.h"
#include "plan/outline.h"
#include "strategy/constants.h"

namespace meshwright {

namespace {

class PlanMaker {
 public:
  PlanMaker(const ProblemInput& input, const Problem& problem, const Assignment& assignment)
      : input_(input), problem_(problem), assignment_(assignment), paths_(input.conversions) {}

  Result<Plan> run() {
    plan_.model = input_.model;
    plan_.mesh = input_.mesh;
    plan_.training = input_.training;
    if (input_.part != nullptr) plan_.part = *input_.part;
    plan_.status = assignment_.status;
    plan_.method = assignment_.method;
    plan_.objective_seconds = plan_.step_seconds = to_seconds(assignment_.cost);
    plan_.bucket_bytes = input_.profile.bucket_bytes;
    plan_.recomputed = input_.recomputed;
    plan_.lower_bound_seconds = to_seconds(assignment_.lower_bound);
    plan_.peak_bytes = assignment_.peak_bytes;
    if (Status status = add_variables(); !status) return status.error();
    if (Status status = add_conversions(); !status) return status.error();
    add_unruled();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const Strategy& chosen(std::size_t i) const { return problem_.variables[i].set->strategies[assignment_.choice[i]]; }

  Status add_variables() {
    for (std::size_t i = 0; i < problem_.variables.size(); ++i) {
      PlannedVariable planned = plan_variable(input_, problem_.variables[i], chosen(i));
      BackwardNeeds& needs = needs_.emplace_back();
      if (auto* node = std::get_if<PlannedNode>(&planned.choice); node != nullptr && input_.model.backward) {
        Result<BackwardLayouts> backward = BackwardAxes(*input_.model.backward, input_.mesh, node->node).choose(node->call);
        if (!backward) return backward.error();
        node->backward = std::move(backward->nodes);
        needs = std::move(backward->needs);
      }
      plan_.variables.push_back(std::move(planned));
    }
    if (input_.model.backward) count_saved();
    return Done{};
  }

  Status add_conversions() {
    ConstantKinds kinds;
    ConstantPricer constants(input_, kinds);
    Result<Outline> outline = outline_of(plan_, needs_, [&](ValueId value, const Layout& wanted) { return constants.call(value, wanted); });
    if (!outline) return outline.error();
    plan_.constants = std::move(outline->constants);
    for (PlannedConversion& conversion : outline->conversions) {
      const ConversionProblem problem = plan_.problem(conversion, input_.profile);
      Result<const ConversionPath*> path = paths_.find(problem, conversion.source, conversion.target);
      if (!path) return add_context("'" + plan_.name(conversion.value) + "'", path.error());
      const Layout* here = &conversion.source;
      for (const Move& move : (*path)->moves) {
        conversion.moves.push_back({move, to_seconds(to_ticks(move_seconds(problem, *here, move)))});
        here = &move.result;
      }
      plan_.conversions.push_back(std::move(conversion));
    }
    return Done{};
  }

  // What a variable holds between the forward and the backward; its share, where several hold it.
  void count_saved() {
    const auto between = static_cast<std::int32_t>(problem_.variables.size()) - 1;
    for (PlannedVariable& planned : plan_.variables) planned.saved_bytes = 0;
    for (const MemoryTerm& term : problem_.space.memory) {
      if (problem_.variables[term.node].kind == VariableKind::parameter || term.begin > between || term.end <= between + 1) continue;
      plan_.variables[term.node].saved_bytes += term.bytes[assignment_.choice[term.node]];
    }
  }

  void add_unruled() {
    for (NodeId id = 0; id < input_.graph().nodes.size(); ++id) {
      const std::string& op = input_.graph().nodes[id].op;
      auto& unruled = plan_.unruled_ops;
      if (!input_.atoms().nodes[id].ruled && std::find(unruled.begin(), unruled.end(), op) == unruled.end()) unruled.push_back(op);
    }
  }

  const ProblemInput& input_;
  const Problem& problem_;
  const Assignment& assignment_;
  ConversionPaths paths_;
  std::vector<BackwardNeeds> needs_;  // by variable
  Plan plan_;
};

}  // namespace

PlannedVariable plan_variable(const ProblemInput& input, const Variable& variable, const Strategy& strategy) {
  const auto normal = [&](ValueId id, const PortLayouts& layouts) {
    return PortLayouts{layouts.value, input.graph().values[id].requires_gradient ? layouts.gradient : Layout(input.mesh.rank())};
  };
  PlannedVariable planned;
  planned.forward_seconds = strategy.forward_seconds;
  planned.backward_seconds = strategy.backward_seconds + strategy.again_seconds;
  switch (variable.kind) {
    case VariableKind::parameter: {
      const ParameterStrategy& parameter = *strategy.parameter();
      planned.choice = PlannedParameter{variable.value, normal(variable.value, parameter.stored), parameter.compute, parameter.state, parameter.zero,
                                        parameter.regather, parameter.prefetch};
      planned.update_seconds = parameter.update_seconds;
      planned.state_bytes = parameter.state_bytes;
      planned.gradient_bytes = parameter.gradient_bytes;
      break;
    }
    case VariableKind::node: {
      const Node& node = input.graph().nodes[variable.node];
      const NodeStrategy& chosen = *strategy.node();
      PlannedNode made{variable.node, chosen.call, {}};
      for (std::size_t i = 0; i < node.operands.size(); ++i) made.call.operands[i] = normal(node.operands[i].value, made.call.operands[i]);
      for (std::size_t i = 0; i < node.results.size(); ++i) made.call.results[i] = normal(node.results[i], made.call.results[i]);
      planned.choice = std::move(made);
      planned.communication_seconds = chosen.forward_communication_seconds + chosen.backward_communication_seconds + chosen.constant_seconds;
      planned.saved_bytes = chosen.saved_bytes;
      break;
    }
    case VariableKind::fork:
      planned.choice = PlannedFork{variable.value, normal(variable.value, strategy.result(0))};
      break;
    case VariableKind::output:
      planned.choice = PlannedOutput{variable.value, normal(variable.value, strategy.operand(0))};
      break;
  }
  return planned;
}

Result<Plan> make_plan(const ProblemInput& input, const Problem& problem, const Assignment& assignment) {
  return PlanMaker(input, problem, assignment).run();
}

}  // namespace meshwright
