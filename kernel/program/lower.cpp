// From a plan to the first form of its program: the forward with the plan's layouts, the backward with what follows
// from them, and `convert` wherever a value has another layout than its user needs.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "meshwright/program.h"
#include "program/backward_axes.h"
#include "program/planned_strategies.h"
#include "strategy/constants.h"
#include "strategy/enumerate.h"

namespace meshwright {

namespace {

using MaybeLayout = std::optional<Layout>;

class Lowering {
 public:
  Lowering(const Plan& plan, const PlanningContext& context, const PlannedStrategies& planned)
      : plan_(plan),
        training_(context.model.backward->training),
        graph_(training_.graph),
        atoms_(context.model.backward->atoms),
        planned_(planned),
        constants_(graph_, atoms_, plan_.mesh, context.profile) {}

  Result<Program> run() {
    begin();
    for (std::int64_t microbatch = 0; microbatch < plan_.training.microbatches; ++microbatch) {
      if (Status status = run_microbatch(microbatch); !status) return status.error();
    }
    return std::move(program_);
  }

  Program run_for_autograd() {
    for_autograd_ = true;
    begin();
    program_.training.microbatches = 1;
    run_forward();
    return std::move(program_);
  }

 private:
  void begin() {
    program_.name = plan_.graph->name;
    program_.mesh = plan_.mesh;
    program_.training = plan_.training;
    add_parameters();
  }

  void run_forward() {
    for (const Source& source : plan_.graph->sources) {
      const bool wanted = source.kind == SourceKind::user_input && graph_.values[source.value].requires_gradient;
      if (const auto planned = planned_.forks.find(source.value); wanted && planned != planned_.forks.end()) {
        made_[source.value] = differentiable_input(source.value, planned->second);
      }
    }
    for (NodeId id = 0; id < training_.first_backward; ++id) {
      if (planned_.nodes[id]) run_forward(id);
    }
    for (const Output& output : plan_.graph->outputs) add_output(output);
  }

  Status run_microbatch(std::int64_t microbatch) {
    microbatch_ = microbatch;
    begin_microbatch();
    count_contributions();
    phase_ = Phase::forward;
    run_forward();
    phase_ = Phase::backward;
    // What is gathered again is another copy from here on.
    std::erase_if(loaded_, [&](const auto& loaded) { return program_.parameters[parameter_of_.at(loaded.first.first)].regather; });
    seed();
    for (NodeId id = training_.first_backward; id-- > 0;) {
      if (training_.contributions[id].empty()) continue;
      if (Status status = run_backward(id); !status) return status;
    }
    return Done{};
  }

  // Everything is made anew; what earlier microbatches left in buffers stays.
  void begin_microbatch() {
    std::erase_if(inputs_, [&](const auto& input) { return is_user_input(input.first.first); });
    for (const auto& [buffer, value] : left_in_buffers_) changed_buffers_[buffer] = value;
    left_in_buffers_.clear();
    loaded_.clear();
    constant_.clear();
    made_.clear();
    converted_.clear();
    gradients_.clear();
    gradient_nodes_.clear();
    awaited_.clear();
  }

  [[nodiscard]] const Source& source_of(ValueId id) const {
    return *std::find_if(plan_.graph->sources.begin(), plan_.graph->sources.end(), [&](const Source& here) { return here.value == id; });
  }
  [[nodiscard]] bool is_user_input(ValueId id) const { return source_of(id).kind == SourceKind::user_input; }

  // --- values ---

  // A copy of graph value `of`, or of its gradient, named after `base`.
  ProgramValueId make_value(const std::string& base, ValueId of, const Layout& layout, const MaybeLayout& gradient = {}) {
    const int copies = copies_of_name_[base]++;
    program_.values.push_back({copies > 0 ? base + "." + std::to_string(copies) : base,
                               {graph_.type(of), atoms_.values[of], layout},
                               gradient});
    bases_.push_back(base);
    return static_cast<ProgramValueId>(program_.values.size() - 1);
  }

  const std::string& name_of(ValueId id) const {
    const auto parameter = names_.find(id);
    return parameter != names_.end() ? parameter->second : graph_.values[id].name;
  }

  const Layout& layout_of(ProgramValueId id) const { return program_.values[id].type.layout; }

  // The layout of the gradient of graph value `of`, where the program has to know it.
  MaybeLayout for_autograd(ValueId of, const Layout& gradient) const {
    return for_autograd_ && graph_.values[of].requires_gradient ? MaybeLayout(gradient) : std::nullopt;
  }

  // `value`, which is a copy of graph value `of`, in another layout; and its gradient in another one, for autograd.
  ProgramValueId convert(ProgramValueId value, ValueId of, const Layout& to, bool planned, const MaybeLayout& gradient = {}) {
    if (layout_of(value) == to && program_.values[value].gradient == gradient) return value;
    const auto [known, inserted] = converted_.try_emplace({value, to, gradient}, kNoId);
    if (!inserted) return known->second;
    const ProgramValueId result = make_value(bases_[value], of, to, gradient);
    Instruction& instruction = add(InstructionKind::convert, program_.values[value].name);
    instruction.operands.push_back({"", value, layout_of(value)});
    instruction.results.push_back(result);
    instruction.planned = planned;
    return converted_[{value, to, gradient}] = result;
  }

  Instruction& add(InstructionKind kind, std::string name) {
    Instruction& instruction = program_.instructions.emplace_back();
    instruction.kind = kind;
    instruction.phase = phase_;
    instruction.name = std::move(name);
    instruction.node = serves_;
    return instruction;
  }

  void add_parameters() {
    for (const Source& source : plan_.graph->sources) {
      if (source.kind != SourceKind::parameter) continue;
      names_[source.value] = source.names.empty() ? graph_.values[source.value].name : source.names[0];
      const auto stored = planned_.stored.find(source.value);
      if (stored == planned_.stored.end()) continue;  // nothing that is trained uses it
      const PlannedStore& store = stored->second;
      parameter_of_[source.value] = static_cast<std::uint32_t>(program_.parameters.size());
      const ProgramValueId value = make_value(names_[source.value], source.value, store.value);
      program_.parameters.push_back({names_[source.value], source.value, value, kNoId, store.state, store.zero, store.regather,
                                     store.prefetch, kNoId});
    }
  }

  // A value with a gradient, for one more use, in the layouts that the plan gives that use.
  ProgramValueId use(ValueId id, const PortLayouts& needed) {
    const auto fork = planned_.forks.find(id);
    const PortLayouts& settled = fork != planned_.forks.end() ? fork->second : needed;
    const auto parameter = parameter_of_.find(id);
    const ProgramValueId value = parameter != parameter_of_.end()
                                     ? load(parameter->second, id, settled)
                                     : convert(made_.at(id), id, settled.value, true, for_autograd(id, settled.gradient));
    return convert(value, id, needed.value, true, for_autograd(id, needed.gradient));
  }

  ProgramValueId load(std::uint32_t parameter, ValueId id, const PortLayouts& ports) {
    const Layout& needed = ports.value;
    const auto [known, inserted] = loaded_.try_emplace({id, needed}, kNoId);
    if (!inserted) return known->second;
    const ProgramValueId result = make_value(name_of(id), id, needed, for_autograd(id, ports.gradient));
    Instruction& instruction = add(InstructionKind::load_parameter, program_.parameters[parameter].name);
    instruction.parameter = parameter;
    instruction.results.push_back(result);
    return loaded_[{id, needed}] = result;
  }

  // A value without a gradient, made for this use in the layout that it wants.
  ProgramValueId constant(ValueId id, const Layout& needed) {
    const NodeId producer = graph_.values[id].producer;
    if (producer == kNoId) return input(id, needed);
    if (producer < planned_.nodes.size() && planned_.nodes[producer]) return convert(made_.at(id), id, needed, true);
    const Node& node = graph_.nodes[producer];
    const Strategy& strategy = constants_.strategy(id, needed);
    const auto at = std::find(node.results.begin(), node.results.end(), id) - node.results.begin();
    const Layout& layout = strategy.results[static_cast<std::size_t>(at)].value;
    auto made = constant_.find({id, layout});
    if (made == constant_.end()) {
      std::vector<ProgramValueId> operands;
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        operands.push_back(constant(node.operands[i].value, operand_layout(producer, strategy, i)));
      }
      const std::vector<ProgramValueId> results = compute(producer, strategy, operands);
      for (std::size_t i = 0; i < results.size(); ++i) constant_[{node.results[i], layout_of(results[i])}] = results[i];
      made = constant_.find({id, layout});
    }
    return convert(made->second, id, needed, true);
  }

  ProgramValueId input(ValueId id, const Layout& needed) {
    if (const auto changed = changed_buffers_.find(id); changed != changed_buffers_.end()) {
      return convert(changed->second, id, needed, false);
    }
    const auto [known, inserted] = inputs_.try_emplace({id, needed}, kNoId);
    if (!inserted) return known->second;
    const ProgramValueId value = make_value(name_of(id), id, needed);
    const SourceKind kind = source_of(id).kind;
    program_.inputs.push_back({kind, id, value, kind == SourceKind::user_input ? microbatch_ : 0});
    return inputs_[{id, needed}] = value;
  }

  // An input of a user whose gradient goes back to where it came from.
  ProgramValueId differentiable_input(ValueId id, const PortLayouts& ports) {
    const ProgramValueId value = make_value(name_of(id), id, ports.value, for_autograd(id, ports.gradient));
    program_.inputs.push_back({SourceKind::user_input, id, value, microbatch_});
    return value;
  }

  // --- computing ---

  // The layout in which operand `i` is handed over: an addend under a sharded sum is added on one rank only.
  Layout operand_layout(NodeId id, const Strategy& strategy, std::size_t i) const {
    Layout layout = strategy.operands[i].value;
    const Rule& rule = atoms_.nodes[id].rule;
    if (!rule.operands[i].addend) return layout;
    for (std::size_t axis = 0; axis < strategy.axes.size(); ++axis) {
      const AxisChoice& choice = strategy.axes[axis];
      if (choice.use == AxisUse::factor && !is_in_results(rule, choice.factor) && !rule.factors[choice.factor].internal) {
        layout.place(axis, Placement::partial_sum());
      }
    }
    return layout;
  }

  std::vector<ProgramValueId> compute(NodeId id, const Strategy& strategy, const std::vector<ProgramValueId>& operands) {
    const Node& node = graph_.nodes[id];
    std::vector<ProgramValueId> results;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      const PortLayouts& port = strategy.results[i];
      results.push_back(make_value(name_of(result), result, port.value, for_autograd(result, port.gradient)));
    }
    Instruction& instruction = add(InstructionKind::compute, node.name);
    instruction.module_path = node.module_path;
    if (id < training_.first_backward) instruction.node = node.name;  // a constant is its own node, whoever uses it
    instruction.op = node.op;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      instruction.operands.push_back({node.operands[i].name, operands[i], operand_layout(id, strategy, i)});
    }
    instruction.results = results;
    instruction.attributes = node.attributes;
    instruction.axes = strategy.axes;
    return results;
  }

  void run_forward(NodeId id) {
    const Node& node = graph_.nodes[id];
    serves_ = node.name;
    const Strategy& strategy = *planned_.nodes[id];
    std::vector<ProgramValueId> operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      const Layout layout = operand_layout(id, strategy, i);
      operands.push_back(graph_.values[operand].requires_gradient
                             ? convert(use(operand, strategy.operands[i]), operand, layout, true,
                                       for_autograd(operand, strategy.operands[i].gradient))
                             : constant(operand, layout));
    }
    const std::vector<ProgramValueId> results = compute(id, strategy, operands);
    for (std::size_t i = 0; i < results.size(); ++i) made_[node.results[i]] = results[i];
  }

  void add_output(const Output& output) {
    const std::int64_t last = plan_.training.microbatches - 1;
    if (output.kind == OutputKind::user_output && last > 0) return;  // accumulating gradients, nobody reads them
    serves_.clear();
    const auto planned = planned_.outputs.find(output.value);
    const Layout whole(plan_.mesh.rank());
    const ProgramValueId value =
        planned != planned_.outputs.end() ? use(output.value, {planned->second, planned->second}) : constant(output.value, whole);
    if (output.kind == OutputKind::buffer_mutation && microbatch_ < last) {
      left_in_buffers_.emplace_back(buffer_named(output.target), value);
    } else {
      program_.outputs.push_back({output.kind, output.target, output.value, value, microbatch_});
    }
  }

  [[nodiscard]] ValueId buffer_named(const std::string& target) const {
    for (const Source& source : plan_.graph->sources) {
      if (std::find(source.names.begin(), source.names.end(), target) != source.names.end()) return source.value;
    }
    return kNoId;
  }

  // --- gradients ---

  void count_contributions() {
    for (std::size_t i = 0; i < training_.forward_of.size(); ++i) {
      if (training_.forward_of[i] == kNoId) continue;  // the seed and sums: made as they come up
      gradient_nodes_[training_.forward_of[i]].push_back(training_.first_backward + static_cast<NodeId>(i));
    }
    for (NodeId id = 0; id < training_.contributions.size(); ++id) {
      for (std::size_t i = 0; i < training_.contributions[id].size(); ++i) {
        if (training_.contributions[id][i] != kNoId) ++awaited_[graph_.nodes[id].operands[i].value];
      }
    }
  }

  // The gradient of the loss is 1, and of one of several losses that are averaged its share.
  void seed() {
    serves_.clear();
    for (const Output& output : plan_.graph->outputs) {
      if (output.kind != OutputKind::loss) continue;
      const NodeId id = training_.first_backward;
      Strategy whole;
      whole.axes.resize(plan_.mesh.rank());
      whole.results.assign(1, {Layout(plan_.mesh.rank()), Layout(plan_.mesh.rank())});
      const ProgramValueId made = compute(id, whole, {})[0];
      if (plan_.training.microbatches > 1) {
        program_.instructions.back().op = "aten.full";
        program_.instructions.back().attributes["fill_value"] = 1.0 / static_cast<double>(plan_.training.microbatches);
      }
      contribute(output.value, made, planned_.outputs.at(output.value));
    }
  }

  // One more addend of the gradient of `of`, which its use yields in `layout`.
  void contribute(ValueId of, ProgramValueId addend, const Layout& layout) {
    addend = convert(addend, of, layout, false);
    const auto fork = planned_.forks.find(of);
    if (fork != planned_.forks.end()) addend = convert(addend, of, fork->second.gradient, true);
    const auto [sum, first] = gradients_.try_emplace(of, addend);
    if (!first) sum->second = add_up(of, sum->second, convert(addend, of, layout_of(sum->second), false));
  }

  ProgramValueId add_up(ValueId of, ProgramValueId a, ProgramValueId b) {
    const Layout layout = layout_of(a);
    const ProgramValueId result = make_value("grad " + name_of(of), of, layout);
    Instruction& instruction = add(InstructionKind::compute, program_.values[result].name);
    instruction.op = "aten.add.Tensor";
    instruction.operands = {{"self", a, layout}, {"other", b, layout}};
    instruction.results = {result};
    instruction.local = true;  // element by element, whatever the layout
    return result;
  }

  // The gradient of one op.
  Status run_backward(NodeId forward) {
    const Node& node = graph_.nodes[forward];
    serves_ = node.name;
    const Strategy& strategy = *planned_.nodes[forward];
    std::map<ValueId, ProgramValueId> at_hand;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      if (graph_.values[operand].requires_gradient) at_hand[operand] = use(operand, strategy.operands[i]);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      at_hand[node.results[i]] = made_.at(node.results[i]);
      const auto gradient = gradients_.find(node.results[i]);
      if (gradient == gradients_.end()) continue;
      at_hand[training_.gradients[node.results[i]]] =
          convert(gradient->second, node.results[i], strategy.results[i].gradient, true);
    }
    BackwardGroup group{graph_, atoms_, plan_.mesh, forward, strategy.axes, gradient_nodes_[forward], {}, {}};
    for (const auto& [value, copy] : at_hand) group.available[value] = layout_of(copy);
    const std::vector<ValueId>& contributions = training_.contributions[forward];
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] != kNoId) group.wanted.emplace_back(contributions[i], strategy.operands[i].gradient);
    }
    const Result<std::vector<Strategy>> chosen = choose_backward_axes(group);
    if (!chosen) return chosen.error();
    for (std::size_t n = 0; n < group.nodes.size(); ++n) {
      const NodeId id = group.nodes[n];
      const Node& backward = graph_.nodes[id];
      const Strategy& axes = (*chosen)[n];
      std::vector<ProgramValueId> operands;
      for (std::size_t i = 0; i < backward.operands.size(); ++i) {
        const ValueId operand = backward.operands[i].value;
        const Layout layout = operand_layout(id, axes, i);
        const auto here = at_hand.find(operand);
        operands.push_back(here != at_hand.end() ? convert(here->second, operand, layout, false) : constant(operand, layout));
      }
      const std::vector<ProgramValueId> results = compute(id, axes, operands);
      for (std::size_t i = 0; i < results.size(); ++i) at_hand[backward.results[i]] = results[i];
    }
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] == kNoId) continue;
      const ValueId operand = node.operands[i].value;
      contribute(operand, at_hand.at(contributions[i]), strategy.operands[i].gradient);
      if (--awaited_[operand] == 0 && parameter_of_.contains(operand)) store(operand);
    }
    return Done{};
  }

  void store(ValueId id) {
    const std::uint32_t parameter = parameter_of_.at(id);
    const ProgramValueId gradient = gradients_.at(id);
    Instruction& instruction = add(InstructionKind::store_gradient, program_.parameters[parameter].name);
    instruction.parameter = parameter;
    instruction.operands.push_back({"", gradient, layout_of(gradient)});
  }

  const Plan& plan_;
  const TrainingGraph& training_;
  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const PlannedStrategies& planned_;
  ConstantPricer constants_;
  Program program_;
  bool for_autograd_ = false;
  Phase phase_ = Phase::forward;
  std::int64_t microbatch_ = 0;
  std::string serves_;                    // Instruction::node of what is added now
  std::map<std::string, int> copies_of_name_;
  std::vector<std::string> bases_;        // by program value: its name without the number of the copy
  std::map<ValueId, std::string> names_;  // of parameters, in the model
  std::map<ValueId, std::uint32_t> parameter_of_;
  std::map<ValueId, ProgramValueId> made_;  // by its producer, in the layout that it yields
  std::map<std::tuple<ProgramValueId, Layout, MaybeLayout>, ProgramValueId> converted_;
  std::map<std::pair<ValueId, Layout>, ProgramValueId> loaded_, inputs_, constant_;
  std::map<ValueId, ProgramValueId> changed_buffers_;                     // by an earlier microbatch
  std::vector<std::pair<ValueId, ProgramValueId>> left_in_buffers_;       // by this one
  std::map<ValueId, ProgramValueId> gradients_;  // the sum so far
  std::map<NodeId, std::vector<NodeId>> gradient_nodes_;  // by node of the forward
  std::map<ValueId, int> awaited_;               // contributions to a gradient that are still to come
};

}  // namespace

namespace {

template <class Run>
Result<Program> with_lowering(const Plan& plan, const PlanningContext& context, const Run& run) {
  if (plan.graph != context.model.graph) return internal_error("a plan is lowered with the analysis of another model");
  Result<PlannedStrategies> planned = read_strategies(plan, context.model.atoms);
  if (!planned) return planned.error();
  if (!context.model.backward) return context.model.no_backward;
  return run(Lowering(plan, context, *planned));
}

}  // namespace

Result<Program> lower(const Plan& plan, const PlanningContext& context) {
  return with_lowering(plan, context, [](Lowering&& lowering) { return lowering.run(); });
}

Result<Program> lower_forward(const Plan& plan, const PlanningContext& context) {
  return with_lowering(plan, context, [](Lowering&& lowering) { return Result<Program>(lowering.run_for_autograd()); });
}

}  // namespace meshwright
