// From a plan to the first form of its program: the forward and the backward in the plan's layouts, and `convert`, with the
// plan's moves, wherever a value has another layout than its user needs. Nothing is chosen here.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "meshwright/lower.h"
#include "plan/plan_index.h"
#include "program/copies.h"
#include "program/lower_parts.h"
#include "program/split_backward.h"
#include "strategy/backward_axes.h"
#include "strategy/enumerate.h"

namespace meshwright {

namespace {

class Lowering {
 public:
  explicit Lowering(const Plan& plan)
      : plan_(plan), model_(*plan.model.backward), training_(model_.training), graph_(training_.graph), atoms_(model_.atoms), index_(plan) {}

  Result<Program> run() {
    program_.name = plan_.graph().name;
    program_.mesh = plan_.mesh;
    program_.bucket_bytes = plan_.bucket_bytes;
    program_.room_bytes = plan_.room_bytes;
    program_.training = plan_.training;
    Result<StepOrder> order = step_order(plan_.training);
    if (!order) return order.error();
    program_.order = std::move(*order);
    Result<Recomputation> again = recomputation(plan_.model, plan_.recomputed);
    if (!again) return again.error();
    again_ = std::move(*again);
    copies_.set_keepers(keepers(plan_.model, again_));
    add_parameters();
    run_microbatch();
    if (missing_) return *missing_;
    if (program_.order.has_parts()) split_backward(program_);
    return std::move(program_);
  }

 private:
  void run_forward() {
    for (const Source& source : plan_.graph().sources) {
      const PlannedFork* fork = graph_.values[source.value].requires_gradient ? index_.fork(source.value) : nullptr;
      if (fork == nullptr) continue;
      if (source.kind == SourceKind::user_input) copies_.set_made(source.value, differentiable_input(source.value, fork->layouts.value));
      if (source.kind == SourceKind::received) copies_.set_made(source.value, receive(source.value, graph_.values[source.value].name, false, boundary_of(source.value).from, fork->layouts.value));
    }
    for (NodeId id = 0; id < training_.first_backward; ++id) {
      if (const PlannedNode* node = index_.node(id)) run_forward(*node);
    }
    for (const Output& output : plan_.graph().outputs) add_output(output);
    give_each_loss(program_);
  }

  void run_microbatch() {
    awaited_ = contributions_of(training_);
    phase_ = Phase::forward;
    run_forward();
    phase_ = Phase::backward;
    // What is gathered again is another copy from here on.
    std::erase_if(loaded_, [&](const auto& loaded) { return program_.parameters[parameter_of_.at(loaded.first.first)].regather; });
    seed();
    for (NodeId id = training_.first_backward; id-- > 0;) {
      if (training_.contributions[id].empty()) continue;
      run_again_before(id);
      convert_again_before(id);
      run_backward(id);
    }
    hand_buffers_on();
  }

  // The forward of a block whose backward begins with this node. What its ops take in another layout than it was kept in, they convert once more.
  void run_again_before(NodeId first) {
    const std::vector<NodeId> nodes = again_.nodes_before(first);
    const Copies::Conversions kept = copies_.forget_operands(graph_, nodes, again_);  // of the forward, for the backward of what does not run again
    const std::size_t before = program_.instructions.size();
    for (const NodeId id : nodes) run_forward(*index_.node(id));
    mark_again(before);
    copies_.restore(kept);
  }

  // What this one's backward takes converted again.
  void convert_again_before(NodeId id) {
    const std::size_t before = program_.instructions.size();
    const PlannedNode& planned = *index_.node(id);
    serves_ = graph_.nodes[id].name;
    for (std::uint32_t port = 0; port < planned.call.operands.size(); ++port) {
      if (!again_.converts(id, port)) continue;
      const ValueId operand = graph_.nodes[id].operands[port].value;
      const Layout& needed = planned.call.operands[port].value;
      copies_.forget_copy(operand, needed, [&](ProgramValueId made, const Layout& to) { return convert(made, operand, to); });
      use(operand, needed);
    }
    mark_again(before);
  }

  void mark_again(std::size_t first) {
    for (std::size_t i = first; i < program_.instructions.size(); ++i) program_.instructions[i].again = true;
  }

  [[nodiscard]] std::int64_t microbatches() const { return program_.order.microbatches; }

  [[nodiscard]] bool is_received(ValueId id) const { return graph_.values[id].producer == kNoId && source_of(plan_.graph(), id).kind == SourceKind::received; }

  // --- values ---

  // A copy of graph value `of`, or of its gradient, named after `base`.
  ProgramValueId make_value(const std::string& base, ValueId of, const Layout& layout) {
    return named_.make(base, {graph_.type(of), atoms_.values[of], layout});
  }

  const std::string& name_of(ValueId id) const {
    const auto parameter = names_.find(id);
    return parameter != names_.end() ? parameter->second : graph_.values[id].name;
  }

  const Layout& layout_of(ProgramValueId id) const { return program_.values[id].type.layout; }

  // `value`, which is a copy of graph value `of`, in another layout.
  ProgramValueId convert(ProgramValueId value, ValueId of, const Layout& to) {
    return convert(value, of, to, index_.conversion(of, false, layout_of(value), to));
  }

  // A gradient of graph value `of`, on its way from operand `port` of a variable to where `of` comes from.
  ProgramValueId convert_back(ProgramValueId value, ValueId of, std::uint32_t user, std::uint32_t port, const Layout& to) {
    return convert(value, of, to, index_.gradient_conversion(of, user, port, layout_of(value), to));
  }

  ProgramValueId convert(ProgramValueId value, ValueId of, const Layout& to, std::uint32_t planned) {
    if (layout_of(value) == to) return value;
    ProgramValueId& known = copies_.converted(value, to);
    if (known != kNoId) return known;
    const ProgramValueId result = make_value(named_.base(value), of, to);
    const std::string name = program_.values[value].name;
    Instruction& instruction = add(Convert{path(name, planned, layout_of(value), to, of)}, name);
    instruction.operands.push_back({"", value, layout_of(value)});
    instruction.results.push_back(result);
    return known = result;
  }

  // How an instruction of this name gets there.
  PlannedPath path(const std::string& name, std::uint32_t planned, const Layout& from, const Layout& to, ValueId of) {
    const auto text = [&](const Layout& layout) { return to_string(layout, atoms_.values[of]); };
    if (planned == kNoId && from != to && !missing_) {
      missing_ = internal_error("the plan does not say how '" + name + "' gets from " + text(from) + " to " + text(to));
    }
    return planned_path(plan_, planned);
  }

  Instruction& add(Action action, std::string name) {
    Instruction& instruction = program_.instructions.emplace_back();
    instruction.action = std::move(action);
    instruction.phase = phase_;
    instruction.name = std::move(name);
    instruction.node = serves_;
    return instruction;
  }

  void add_parameters() {
    for (const Source& source : plan_.graph().sources) {
      if (source.kind != SourceKind::parameter) continue;
      names_[source.value] = source.names.empty() ? graph_.values[source.value].name : source.names[0];
      const PlannedParameter* stored = index_.parameter(source.value);
      if (stored == nullptr) continue;  // nothing that is trained uses it
      parameter_of_[source.value] = static_cast<std::uint32_t>(program_.parameters.size());
      ProgramParameter& parameter = program_.parameters.emplace_back();
      parameter.name = names_[source.value];
      parameter.source = source.value;
      parameter.value = make_value(names_[source.value], source.value, stored->stored.value);
      program_.values.back().of_step = true;
      parameter.state = stored->state;
      parameter.reduced = stored->stored.gradient;
      parameter.zero = stored->zero;
      parameter.regather = stored->regather;
      parameter.prefetch = stored->prefetch;
      const std::uint32_t at = index_.maker(source.value).variable;
      parameter.settle = planned_path(plan_, index_.gradient_conversion(source.value, at, kNoId, parameter.reduced, parameter.state));
      parameter.cut = planned_path(plan_, index_.conversion(source.value, true, stored->stored.value, parameter.state));
      parameter.gather = planned_path(plan_, index_.conversion(source.value, true, parameter.state, stored->stored.value));
    }
  }

  // A value with a gradient, for one more use, in the layout that the plan gives that use.
  ProgramValueId use(ValueId id, const Layout& needed) {
    const PlannedFork* fork = index_.fork(id);
    const Layout& settled = fork != nullptr ? fork->layouts.value : needed;
    const auto parameter = parameter_of_.find(id);
    const ProgramValueId value = parameter != parameter_of_.end() ? load(parameter->second, id, settled) : convert(copies_.made(id), id, settled);
    return convert(value, id, needed);
  }

  ProgramValueId load(std::uint32_t parameter, ValueId id, const Layout& needed) {
    const auto [known, inserted] = loaded_.try_emplace({id, needed}, kNoId);
    if (!inserted) return known->second;
    const ProgramValueId result = make_value(name_of(id), id, needed);
    const std::string& name = program_.parameters[parameter].name;
    const Layout& stored = layout_of(program_.parameters[parameter].value);
    Instruction& instruction = add(LoadParameter{path(name, index_.conversion(id, true, stored, needed), stored, needed, id)}, name);
    instruction.parameter = parameter;
    instruction.results.push_back(result);
    return loaded_[{id, needed}] = result;
  }

  // A value without a gradient, made for this use in the layout that it wants.
  ProgramValueId constant(ValueId id, const Layout& needed) {
    const NodeId producer = graph_.values[id].producer;
    if (producer == kNoId) return input(id, needed);
    if (index_.node(producer) != nullptr) return convert(copies_.made(id), id, needed);
    const Node& node = graph_.nodes[producer];
    const CallLayouts* call = index_.constant(id, needed);
    if (call == nullptr) {
      if (!missing_) missing_ = internal_error("the plan does not say how '" + node.name + "' makes a constant");
      return make_value(name_of(id), id, needed);
    }
    const auto at = std::find(node.results.begin(), node.results.end(), id) - node.results.begin();
    const Layout& layout = call->results[static_cast<std::size_t>(at)].value;
    auto made = constant_.find({id, layout});
    if (made == constant_.end()) {
      std::vector<ProgramValueId> operands;
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        operands.push_back(constant(node.operands[i].value, handed_layout(atoms_.nodes[producer], *call, i)));
      }
      const std::vector<ProgramValueId> results = compute(producer, *call, operands);
      for (std::size_t i = 0; i < results.size(); ++i) constant_[{node.results[i], layout_of(results[i])}] = results[i];
      made = constant_.find({id, layout});
    }
    return convert(made->second, id, needed);
  }

  ProgramValueId input(ValueId id, const Layout& needed) {
    if (const auto known = inputs_.find({id, needed}); known != inputs_.end()) return known->second;
    const Output* change = microbatches() > 1 ? change_of(plan_.graph(), id) : nullptr;
    const ProgramValueId value = inputs_[{id, needed}] = change != nullptr ? carried(id, *change, needed) : make_value(name_of(id), id, needed);
    const SourceKind kind = source_of(plan_.graph(), id).kind;
    const std::int64_t each = kind == SourceKind::user_input ? microbatches() : 1;
    program_.values[value].of_step = kind != SourceKind::user_input && change == nullptr;
    for (std::int64_t microbatch = 0; microbatch < each; ++microbatch) program_.inputs.push_back({kind, id, value, microbatch});
    return value;
  }

  // A buffer, as the microbatch before left it; in the first one it is an input. It lies as it is left, and is converted from there.
  ProgramValueId carried(ValueId buffer, const Output& change, const Layout& needed) {
    const PlannedOutput* planned = index_.output(change.value);
    const Layout left = planned != nullptr ? planned->layouts.value : Layout(plan_.mesh.rank());
    auto [known, inserted] = carried_.try_emplace(buffer, kNoId);
    if (inserted) {
      known->second = make_value(name_of(buffer), buffer, left);
      Instruction& carry = add(Carry{}, name_of(buffer));
      carry.when = When::later;
      carry.operands.push_back({"", kNoId, left});  // made further down
      carry.results.push_back(known->second);
    }
    if (left == needed) return known->second;
    const ProgramValueId value = convert(known->second, buffer, needed);
    program_.instructions.back().when = When::later;
    return value;
  }

  void hand_buffers_on() {
    for (const auto& [buffer, carried] : carried_) {
      for (Instruction& instruction : program_.instructions) {
        if (instruction.kind() == InstructionKind::carry && instruction.results[0] == carried) instruction.operands[0].value = left_.at(buffer);
      }
    }
  }

  // An input of a user whose gradient goes back to where it came from.
  ProgramValueId differentiable_input(ValueId id, const Layout& layout) {
    const ProgramValueId value = make_value(name_of(id), id, layout);
    for (std::int64_t microbatch = 0; microbatch < microbatches(); ++microbatch) program_.inputs.push_back({SourceKind::user_input, id, value, microbatch});
    return value;
  }

  // --- computing ---

  std::vector<ProgramValueId> compute(NodeId id, const CallLayouts& call, const std::vector<ProgramValueId>& operands) {
    const Node& node = graph_.nodes[id];
    std::vector<ProgramValueId> results;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      results.push_back(make_value(name_of(result), result, call.results[i].value));
    }
    Compute action{.op = node.op, .attributes = node.attributes, .axes = call.axes};
    action.fused = fused_call(plan_.model, plan_.training, id);
    Instruction& instruction = add(std::move(action), node.name);
    instruction.module_path = node.module_path;
    if (id < training_.first_backward) instruction.node = node.name;  // a constant is its own node, whoever uses it
    for (std::size_t i = 0; i < operands.size(); ++i) {
      instruction.operands.push_back({node.operands[i].name, operands[i], handed_layout(atoms_.nodes[id], call, i)});
    }
    instruction.results = results;
    return results;
  }

  void run_forward(const PlannedNode& planned) {
    const NodeId id = planned.node;
    const Node& node = graph_.nodes[id];
    serves_ = node.name;
    std::vector<ProgramValueId> operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      const Layout layout = handed_layout(atoms_.nodes[id], planned.call, i);
      operands.push_back(graph_.values[operand].requires_gradient ? convert(use(operand, planned.call.operands[i].value), operand, layout)
                                                                  : constant(operand, layout));
    }
    const std::vector<ProgramValueId> results = compute(id, planned.call, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (phase_ == Phase::forward || again_.makes(node.results[i])) copies_.set_made(node.results[i], results[i]);
    }
  }

  // --- other stages ---

  // What hands a value on, by its name in the model.
  [[nodiscard]] const StageBoundary& boundary_of(ValueId id) {
    static const StageBoundary kNone;
    const auto found = std::ranges::find(plan_.part.boundaries, graph_.values[id].name, &StageBoundary::value);
    if (found != plan_.part.boundaries.end()) return *found;
    if (!missing_) missing_ = internal_error("the plan does not say which stages '" + graph_.values[id].name + "' goes between");
    return kNone;
  }

  ProgramValueId receive(ValueId id, const std::string& name, bool gradient, std::uint32_t from, const Layout& layout) {
    const ProgramValueId result = make_value(name, id, layout);
    const bool travels = std::ranges::find(plan_.part.beside, from) == plan_.part.beside.end();
    add(Receive{{graph_.values[id].name, gradient, from, plan_.part.stage}, travels}, program_.values[result].name).results = {result};
    return result;
  }

  void send(ValueId id, ProgramValueId value, bool gradient, std::uint32_t to) {
    Instruction& instruction = add(Send{{graph_.values[id].name, gradient, plan_.part.stage, to}}, program_.values[value].name);
    instruction.operands = {{"", value, layout_of(value)}};
    instruction.stream = Stream::communication;
  }

  // Each stage that was sent a value gives its gradient for it.
  void receive_gradients(const Output& output) {
    const PlannedOutput* planned = index_.output(output.value);
    if (planned == nullptr || training_.gradients[output.value] == kNoId) return;
    ProgramValueId sum = kNoId;
    for (const std::uint32_t stage : boundary_of(output.value).to) {
      const ProgramValueId one = receive(output.value, "grad " + name_of(output.value), true, stage, planned->layouts.gradient);
      sum = sum == kNoId ? one : add_up(output.value, sum, one, {});
    }
    if (sum != kNoId) contribute(output.value, sum, index_.variable_of_output(output.value), 0);
  }

  void add_output(const Output& output) {
    if (output.kind == OutputKind::sent) {
      serves_.clear();
      const ProgramValueId value = use(output.value, index_.output(output.value)->layouts.value);
      for (const std::uint32_t stage : boundary_of(output.value).to) send(output.value, value, false, stage);
      return;
    }
    // Accumulating gradients, nobody reads them.
    if (output.kind == OutputKind::user_output && plan_.training.microbatches > 1) return;
    serves_.clear();
    const PlannedOutput* planned = index_.output(output.value);
    const Layout whole(plan_.mesh.rank());
    const ProgramValueId value = planned != nullptr ? use(output.value, planned->layouts.value) : constant(output.value, whole);
    const ValueId buffer = output.kind == OutputKind::buffer_mutation ? buffer_named(plan_.graph(), output.target) : kNoId;
    if (buffer != kNoId) left_[buffer] = value;
    program_.outputs.push_back({output.kind, output.target, output.value, value, microbatches() - 1, buffer});
  }

  // --- gradients ---

  // The gradient of the loss is 1, and of one of several losses that are averaged its share.
  void seed() {
    serves_.clear();
    for (const Output& output : plan_.graph().outputs) {
      if (output.kind == OutputKind::sent) receive_gradients(output);
      if (output.kind != OutputKind::loss) continue;
      const NodeId id = training_.first_backward;
      CallLayouts whole;
      whole.axes.resize(plan_.mesh.rank());
      whole.results.assign(1, {Layout(plan_.mesh.rank()), Layout(plan_.mesh.rank())});
      const ProgramValueId made = compute(id, whole, {})[0];
      if (plan_.training.microbatches > 1) {
        Compute& full = *program_.instructions.back().compute();
        full.op = "aten.full";
        full.attributes["fill_value"] = 1.0 / static_cast<double>(plan_.training.microbatches);
      }
      contribute(output.value, made, index_.variable_of_output(output.value), 0);
    }
  }

  // One more addend of the gradient of `of`, which its use as operand `port` of a variable yields.
  void contribute(ValueId of, ProgramValueId addend, std::uint32_t user, std::uint32_t port) {
    if (const PlannedFork* fork = index_.fork(of)) addend = convert_back(addend, of, user, port, fork->layouts.gradient);
    const auto [sum, first] = gradients_.try_emplace(of, addend);
    if (first) users_[of] = {user, port};
    else sum->second = add_up(of, sum->second, addend, fused_sum(plan_.model, plan_.training, of, sums_[of]++));
  }

  // Element by element, whatever the layout.
  ProgramValueId add_up(ValueId of, ProgramValueId a, ProgramValueId b, const FusedCall& fused) {
    const Layout layout = layout_of(a);
    const ProgramValueId result = make_value("grad " + name_of(of), of, layout);
    Instruction& instruction = add(Compute{.op = "aten.add.Tensor", .local = true, .fused = fused}, program_.values[result].name);
    instruction.operands = {{"self", a, layout}, {"other", b, layout}};
    instruction.results = {result};
    return result;
  }

  // The gradient of one op.
  void run_backward(NodeId forward) {
    const Node& node = graph_.nodes[forward];
    serves_ = node.name;
    const PlannedNode& planned = *index_.node(forward);
    std::map<ValueId, ProgramValueId> at_hand;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      if (graph_.values[operand].requires_gradient) at_hand[operand] = use(operand, planned.call.operands[i].value);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      at_hand[node.results[i]] = copies_.made(node.results[i]);
      if (gradients_.contains(node.results[i])) at_hand[training_.gradients[node.results[i]]] = gradient(node.results[i], planned.call.results[i].gradient);
    }
    const std::vector<NodeId>& nodes = model_.backward_of[forward];
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const Node& backward = graph_.nodes[nodes[n]];
      std::vector<ProgramValueId> operands;
      for (std::size_t i = 0; i < backward.operands.size(); ++i) {
        const ValueId operand = backward.operands[i].value;
        const Layout layout = handed_layout(atoms_.nodes[nodes[n]], planned.backward[n], i);
        const auto here = at_hand.find(operand);
        operands.push_back(here != at_hand.end() ? convert(here->second, operand, layout) : constant(operand, layout));
      }
      const std::vector<ProgramValueId> results = compute(nodes[n], planned.backward[n], operands);
      for (std::size_t i = 0; i < results.size(); ++i) at_hand[backward.results[i]] = results[i];
    }
    const std::vector<ValueId>& contributions = training_.contributions[forward];
    for (std::uint32_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] == kNoId) continue;
      const ValueId operand = node.operands[i].value;
      const ProgramValueId made = convert(at_hand.at(contributions[i]), contributions[i], planned.call.operands[i].gradient);
      contribute(operand, made, index_.variable_of(forward), i);
      if (--awaited_[operand] > 0) continue;
      if (parameter_of_.contains(operand)) store(operand);
      else if (is_received(operand)) send(operand, gradients_.at(operand), true, boundary_of(operand).from);
    }
  }

  // The gradient of a value with its maker: summed up in the layout of its fork, or as its one user yields it.
  ProgramValueId gradient(ValueId of, const Layout& needed) {
    const ProgramValueId sum = gradients_.at(of);
    if (index_.fork(of) != nullptr) return convert_back(sum, of, index_.variable_of_fork(of), 0, needed);
    return convert_back(sum, of, users_.at(of).first, users_.at(of).second, needed);
  }

  void store(ValueId id) {
    const std::uint32_t parameter = parameter_of_.at(id);
    const ProgramValueId gradient = gradients_.at(id);
    const Layout &made = layout_of(gradient), &reduced = program_.parameters[parameter].reduced;
    const auto [user, port] = index_.fork(id) != nullptr ? std::pair{index_.variable_of_fork(id), std::uint32_t{0}} : users_.at(id);
    const std::string& name = program_.parameters[parameter].name;
    Instruction& instruction = add(StoreGradient{path(name, index_.gradient_conversion(id, user, port, made, reduced), made, reduced, id)}, name);
    instruction.parameter = parameter;
    instruction.operands.push_back({"", gradient, made});
  }

  const Plan& plan_;
  const TrainingAnalysis& model_;
  const TrainingGraph& training_;
  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const PlanIndex index_;
  std::optional<Error> missing_;  // what the plan should have said, and does not
  Program program_;
  Copies copies_{index_, program_};
  Recomputation again_;
  Phase phase_ = Phase::forward;
  std::string serves_;                    // Instruction::node of what is added now
  NamedValues named_{program_};
  std::map<ValueId, std::string> names_;  // of parameters, in the model
  std::map<ValueId, std::uint32_t> parameter_of_;
  std::map<std::pair<ValueId, Layout>, ProgramValueId> loaded_, inputs_, constant_;
  std::map<ValueId, ProgramValueId> carried_;  // buffers, as the microbatch before left them
  std::map<ValueId, ProgramValueId> left_;     // in buffers, by this one
  std::map<ValueId, ProgramValueId> gradients_;  // the sum so far
  std::map<ValueId, std::pair<std::uint32_t, std::uint32_t>> users_;  // whose use yields it, without a fork: variable and operand
  std::map<ValueId, std::size_t> sums_;  // of gradients of a value, that were made so far
  std::map<ValueId, int> awaited_;               // contributions to a gradient that are still to come
};

}  // namespace

Result<Program> lower(const Plan& plan) {
  if (!plan.model.backward) return plan.model.no_backward;
  return Lowering(plan).run();
}

}  // namespace meshwright
