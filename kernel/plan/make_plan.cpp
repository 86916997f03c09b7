#include <algorithm>
#include <cmath>
#include <cstdio>

#include "meshwright/plan.h"
#include "plan/simulate.h"

namespace meshwright {

namespace {

// A parameter's is the model's.
const std::string& name_of(const Graph& graph, ValueId id) {
  if (graph.values[id].producer != kNoId) return graph.values[id].name;
  for (const Source& source : graph.sources) {
    if (source.value == id && source.kind == SourceKind::parameter && !source.names.empty()) return source.names[0];
  }
  return graph.values[id].name;
}

constexpr double kMostDifference = 0.05;  // of the simulated step from the objective, before it is explained

class PlanMaker {
 public:
  PlanMaker(const ProblemInput& input, const Problem& problem, const Assignment& assignment)
      : input_(input), problem_(problem), assignment_(assignment), paths_(input.conversions) {}

  Result<Plan> run() {
    plan_.graph = input_.model.graph;
    plan_.mesh = input_.mesh;
    plan_.training = input_.training;
    plan_.status = assignment_.status;
    plan_.method = assignment_.method;
    plan_.objective_seconds = to_seconds(assignment_.cost);
    plan_.lower_bound_seconds = to_seconds(assignment_.lower_bound);
    plan_.peak_bytes = assignment_.peak_bytes;
    name_values();
    StepInput step{problem_, input_.training, {}, {}, {}};
    for (std::size_t i = 0; i < problem_.variables.size(); ++i) {
      step.chosen.push_back(&problem_.variables[i].set->strategies[assignment_.choice[i]]);
    }
    for (std::size_t i = 0; i < problem_.variables.size(); ++i) plan_.variables.push_back(plan_variable(input_, problem_.variables[i], *step.chosen[i]));
    if (input_.model.backward) count_saved();
    for (const ProblemEdge& edge : problem_.edges) {
      if (Status status = add_edge(edge, step); !status) return status.error();
    }
    const StepTimes times = simulate_step(step);
    plan_.step_seconds = times.seconds;
    note_difference(times);
    add_unruled();
    return std::move(plan_);
  }

 private:
  const AtomShape& shape(ValueId id) const { return input_.atoms().values[id]; }

  void name_values() {
    for (ValueId id = 0; id < input_.graph().values.size(); ++id) names_.push_back(name_of(input_.graph(), id));
  }

  Status add_edge(const ProblemEdge& edge, StepInput& step) {
    const Strategy& from = *step.chosen[edge.from];
    const Strategy& to = *step.chosen[edge.to];
    const PortLayouts& source = from.result(edge.from_port);
    const PortLayouts& target = to.operands[edge.to_port];
    Result<double> forward = add_conversion(edge, false, source.value, target.value);
    if (!forward) return forward.error();
    Result<double> backward = input_.graph().values[edge.value].requires_gradient
                                  ? add_conversion(edge, true, target.gradient, source.gradient)
                                  : Result<double>(0.0);
    if (!backward) return backward.error();
    step.forward.push_back(*forward);
    step.backward.push_back(*backward);
    return Done{};
  }

  Result<double> add_conversion(const ProblemEdge& edge, bool backward, const Layout& from, const Layout& to) {
    const DType dtype = input_.graph().type(edge.value).dtype;
    const std::int64_t element_bytes =
        edge.of_parameter && backward ? input_.training.gradient_bytes(dtype) : size_bytes(dtype);
    const ConversionProblem problem{input_.mesh, shape(edge.value), input_.profile, element_bytes, edge.of_parameter};
    Result<const ConversionPath*> path = paths_.find(problem, from, to);
    if (!path) return path.error();
    if ((*path)->moves.empty()) return 0.0;
    PlannedConversion& planned = plan_.conversions.emplace_back();
    planned.value = names_[edge.value];
    planned.from = backward ? edge.to : edge.from;
    planned.to = backward ? edge.from : edge.to;
    planned.to_port = edge.to_port;
    planned.backward = backward;
    planned.hides = edge.of_parameter;
    planned.source_layout = to_string(from, shape(edge.value));
    planned.target_layout = to_string(to, shape(edge.value));
    planned.seconds = to_seconds((*path)->ticks);
    planned.times = times_a_step(edge, backward);
    Layout here = from;
    for (const Move& move : (*path)->moves) {
      planned.moves.push_back({move.kind, move.axis, move.other_axis, to_string(move.result, shape(edge.value)),
                               local_elements(here, shape(edge.value), input_.mesh) * problem.element_bytes,
                               to_seconds(move_ticks(problem, here, move))});
      here = move.result;
    }
    return planned.seconds;
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

  [[nodiscard]] std::int64_t times_a_step(const ProblemEdge& edge, bool backward) const {
    const std::int64_t microbatches = input_.training.microbatches;
    if (!edge.of_parameter) return microbatches;
    const Strategy& parameter = problem_.variables[edge.from].set->strategies[assignment_.choice[edge.from]];
    if (!backward) return parameter.regather ? 2 * microbatches : microbatches;
    return input_.training.reduces_each_microbatch(parameter.zero) ? microbatches : 1;
  }

  // The additive cost and the simulated step count everything alike but what hides.
  void note_difference(const StepTimes& times) {
    const double difference = plan_.objective_seconds > 0 ? times.seconds / plan_.objective_seconds - 1 : 0;
    if (std::abs(difference) <= kMostDifference) return;
    TickSum counted = 0;
    for (std::size_t i = 0; i < problem_.edges.size(); ++i) {
      const ProblemEdge& edge = problem_.edges[i];
      const CostTable& table = problem_.space.tables[problem_.space.edges[i].table];
      if (edge.of_parameter) counted += table.costs[std::size_t{assignment_.choice[edge.from]} * table.columns + assignment_.choice[edge.to]];
    }
    char text[512];
    std::snprintf(text, sizeof text,
                  "The simulated step is %.1f %% %s the objective: of %.3f ms in which parameters are gathered and reduced, it "
                  "waits for %.3f ms (%.3f ms for gathers, %.3f ms for reductions behind the last op); the search, which hides each "
                  "parameter's behind the op that uses it, counts %.3f ms.",
                  100 * std::abs(difference), difference > 0 ? "above" : "below", 1e3 * times.parameter_seconds, 1e3 * (times.waits_for_gathers + times.waits_at_end),
                  1e3 * times.waits_for_gathers, 1e3 * times.waits_at_end, 1e3 * to_seconds(counted));
    plan_.notes.emplace_back(text);
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
  std::vector<std::string> names_;  // by value; a parameter's is its name in the model
  Plan plan_;
};

}  // namespace

PlannedVariable plan_variable(const ProblemInput& input, const Variable& variable, const Strategy& strategy) {
  const auto port = [&](ValueId id, const PortLayouts& layouts) {
    const AtomShape& shape = input.atoms().values[id];
    const bool gradient = input.graph().values[id].requires_gradient;
    return PlannedPort{name_of(input.graph(), id), to_string(layouts.value, shape), gradient ? to_string(layouts.gradient, shape) : ""};
  };
  PlannedVariable planned;
  planned.kind = variable.kind;
  planned.name = variable.name;
  planned.forward_seconds = strategy.forward_seconds;
  planned.backward_seconds = strategy.backward_seconds;
  planned.update_seconds = strategy.update_seconds;
  planned.communication_seconds = strategy.forward_communication_seconds + strategy.backward_communication_seconds +
                                  strategy.constant_seconds;
  planned.saved_bytes = strategy.saved_bytes;
  planned.state_bytes = strategy.state_bytes;
  planned.gradient_bytes = strategy.gradient_bytes;
  if (variable.kind == VariableKind::node) {
    const Node& node = input.graph().nodes[variable.node];
    planned.op = node.op;
    planned.module = node.module_path;
    for (const AxisChoice& choice : strategy.axes) planned.axes.push_back(to_string(choice, input.atoms().nodes[variable.node]));
    for (std::size_t i = 0; i < node.operands.size(); ++i) planned.operands.push_back(port(node.operands[i].value, strategy.operands[i]));
    for (std::size_t i = 0; i < node.results.size(); ++i) planned.results.push_back(port(node.results[i], strategy.results[i]));
    return planned;
  }
  for (const PortLayouts& operand : strategy.operands) planned.operands.push_back(port(variable.value, operand));
  for (const PortLayouts& result : strategy.results) planned.results.push_back(port(variable.value, result));
  if (variable.kind == VariableKind::parameter) {
    const AtomShape& shape = input.atoms().values[variable.value];
    planned.name = name_of(input.graph(), variable.value);
    planned.compute_layout = to_string(strategy.compute, shape);
    planned.state_layout = to_string(strategy.state, shape);
    planned.zero = strategy.zero;
    planned.regather = strategy.regather;
    planned.prefetch = strategy.prefetch;
    planned.module = planned.name.substr(0, planned.name.rfind('.') == std::string::npos ? 0 : planned.name.rfind('.'));
  }
  return planned;
}

Result<Plan> make_plan(const ProblemInput& input, const Problem& problem, const Assignment& assignment) {
  return PlanMaker(input, problem, assignment).run();
}

}  // namespace meshwright
