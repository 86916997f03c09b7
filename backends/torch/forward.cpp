#include "forward.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "meshwright/plan.h"
#include "meshwright/recompute.h"
#include "straight_way.h"

namespace meshwright::torch {

namespace {

// Who uses a value, or hands it on: a variable of the plan, and which operand of it.
struct User {
  std::uint32_t variable = kNoId, port = 0;
};

// A plan's variables by what they are of, and the ways of its gradients.
class GradientPlan {
 public:
  explicit GradientPlan(const Plan& plan) : plan_(plan), graph_(plan.model.backward->training.graph) {
    for (std::uint32_t i = 0; i < plan.variables.size(); ++i) {
      const auto& choice = plan.variables[i].choice;
      if (const auto* node = std::get_if<PlannedNode>(&choice)) nodes_[graph_.nodes[node->node].name] = i;
      if (const auto* fork = std::get_if<PlannedFork>(&choice)) forks_[fork->value] = i;
      if (const auto* output = std::get_if<PlannedOutput>(&choice)) outputs_[output->value] = i;
    }
    for (const Node& node : plan.graph().nodes) names_.insert(node.name);
    for (const PlannedConversion& conversion : plan.conversions) {
      if (!conversion.gradient) continue;
      ways_.try_emplace({conversion.value, conversion.from, conversion.to_port, conversion.source, conversion.target}, &conversion);
    }
  }

  // kNoId if there is none: it has no gradient.
  [[nodiscard]] std::uint32_t node(const std::string& name) const { return find(nodes_, name); }
  [[nodiscard]] bool knows(const std::string& node) const { return names_.contains(node); }
  [[nodiscard]] std::uint32_t fork(ValueId value) const { return find(forks_, value); }
  [[nodiscard]] std::uint32_t output(ValueId value) const { return find(outputs_, value); }

  template <class Choice>
  [[nodiscard]] const Choice& choice(std::uint32_t variable) const { return std::get<Choice>(plan_.variables[variable].choice); }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] bool has_gradient(ValueId value) const { return graph_.values[value].requires_gradient; }

  // Null where the plan says nothing.
  [[nodiscard]] const PlannedConversion* way(ValueId value, User user, const Layout& from, const Layout& to) const {
    const auto found = ways_.find({value, user.variable, user.port, from, to});
    return found == ways_.end() ? nullptr : found->second;
  }

 private:
  template <class Key>
  static std::uint32_t find(const std::map<Key, std::uint32_t>& all, const Key& key) {
    const auto found = all.find(key);
    return found == all.end() ? kNoId : found->second;
  }

  const Plan& plan_;
  const Graph& graph_;
  std::set<std::string> names_;  // of all nodes of the forward
  std::map<std::string, std::uint32_t> nodes_;
  std::map<ValueId, std::uint32_t> forks_, outputs_;
  std::map<std::tuple<ValueId, std::uint32_t, std::uint32_t, Layout, Layout>, const PlannedConversion*> ways_;
};

// The moves of one conversion, one behind the other.
struct Stretch {
  ProgramValueId result = kNoId;
  std::vector<Move> moves;
};

// How a value came from where it was made.
struct Way {
  ProgramValueId root = kNoId;
  std::vector<Stretch> stretches;
};

class Reader {
 public:
  Reader(const BackendInput& input, const StageEnds* ends) : input_(input), ends_(ends), plan_(*input.plan) {}

  Result<ForwardProgram> run() {
    begin();
    for (const Instruction& instruction : input_.program.instructions) {
      if (instruction.phase != Phase::forward) continue;
      here_ = &instruction;
      if (Status status = read(instruction); !status) return status.error();
    }
    for (ProgramOutput& output : made_.program.outputs) {
      const std::uint32_t variable = plan_.output(output.source);
      if (variable == kNoId) {
        output.value = without_gradient(output.value, "");
        continue;
      }
      const Result<ProgramValueId> value = use(output.value, output.source, plan_.choice<PlannedOutput>(variable).layouts, {variable, 0}, "");
      if (!value) return value.error();
      output.value = *value;
    }
    if (Status status = send(); !status) return status.error();
    std::ranges::stable_sort(steps_, {}, &Placed::at);
    for (Placed& step : steps_) made_.steps.push_back(std::move(step.step));
    return std::move(made_);
  }

 private:
  // A step stands where the program has it: `at` an instruction. What the program has not stands at the op that uses it.
  struct Placed {
    const Instruction* at = nullptr;
    std::variant<Load, Conversion, Call> step;
  };

  void begin() {
    const Program& whole = input_.program;
    Program& program = made_.program;
    program.name = whole.name;
    program.mesh = whole.mesh;
    program.training = whole.training;
    program.values = whole.values;
    program.parameters = whole.parameters;
    std::ranges::copy_if(whole.inputs, std::back_inserter(program.inputs), [](const ProgramInput& input) { return input.microbatch == 0; });
    std::ranges::copy_if(whole.outputs, std::back_inserter(program.outputs),
                         [&](const ProgramOutput& output) { return output.microbatch + 1 == whole.order.microbatches; });
    made_.gradients.resize(whole.values.size());
    for (std::uint32_t i = 0; i < whole.parameters.size(); ++i) {
      parameters_[whole.parameters[i].value] = i;
      there_.insert(whole.parameters[i].value);
    }
    for (const ProgramInput& input : whole.inputs) {
      there_.insert(input.value);
      const std::uint32_t fork = input.kind == SourceKind::user_input && plan_.has_gradient(input.source) ? plan_.fork(input.source) : kNoId;
      if (fork != kNoId) made_.gradients[input.value] = plan_.choice<PlannedFork>(fork).layouts.gradient;
    }
    for (const Instruction& instruction : whole.instructions) {
      if (instruction.phase != Phase::forward) continue;
      if (instruction.call() != kNoId) calls_[instruction.call()].push_back(&instruction);
      else if (instruction.kind() == InstructionKind::move && !there_.contains(instruction.results[0])) moves_[instruction.results[0]] = &instruction;
    }
    if (ends_ != nullptr) {
      for (const Crossing& crossing : ends_->received) {
        made_.received.push_back(made_.add(crossing.value, crossing.type));
        made_.gradients[made_.received.back()] = crossing.type.layout;
      }
    }
    find_again();
    for (const auto& [result, move] : moves_) {
      const auto before = moves_.find(move->operands[0].value);
      if (before != moves_.end() && conversion_of(*before->second) == conversion_of(*move)) passing_.insert(before->first);
    }
  }

  // What is converted again for an op that does not run again itself: the first that asks for it.
  void find_again() {
    const Result<Recomputation> again = recomputation(input_.plan->model, input_.plan->recomputed);
    if (!again || again->converted_again.empty()) return;
    std::set<std::string> converting;
    for (const auto& [id, port] : again->converted_again) converting.insert(plan_.graph().nodes[id].name);
    for (const Instruction& instruction : input_.program.instructions) {
      if (instruction.again && instruction.kind() == InstructionKind::move && converting.contains(instruction.node)) again_.try_emplace(conversion_of(instruction), instruction.node);
    }
  }

  Status read(const Instruction& instruction) {
    if (instruction.call() != kNoId) {
      const std::vector<const Instruction*>& steps = calls_.at(instruction.call());
      if (steps.front() != &instruction) return Done{};
      Call call{input_.program.calls[instruction.call()], {}};
      for (const Instruction* step : steps) call.steps.push_back(*step);
      return read(std::move(call));
    }
    if (instruction.kind() == InstructionKind::compute) return read(Call{instruction, {instruction}});
    if (instruction.kind() == InstructionKind::receive) return receive(instruction);
    if (moves_.contains(instruction.results.empty() ? kNoId : instruction.results[0])) read_move(instruction);
    return Done{};
  }

  // Values without a gradient go their way as the program has it; others for the uses that they have, each with its gradient.
  void read_move(const Instruction& move) {
    const ProgramValueId result = move.results[0];
    if (passing_.contains(result)) return;
    const Way way = way_to(result);
    if (has_gradient(way)) return;
    const ProgramValueId from = way.stretches.size() > 1 ? way.stretches[way.stretches.size() - 2].result : way.root;
    steps_.push_back({here_, Conversion{move.node, from, result, way.stretches.back().moves, {}, true, ""}});
  }

  static std::uint32_t conversion_of(const Instruction& move) { return std::get<MoveStep>(move.action).conversion; }

  [[nodiscard]] Way way_to(ProgramValueId value) const {
    Way way;
    std::uint32_t conversion = kNoId;
    way.root = value;
    for (auto at = moves_.find(value); at != moves_.end(); at = moves_.find(way.root)) {
      const Instruction& move = *at->second;
      if (way.stretches.empty() || conversion_of(move) != conversion) way.stretches.push_back({way.root, {}});
      conversion = conversion_of(move);
      way.stretches.back().moves.push_back(*move.move());
      way.root = move.operands[0].value;
    }
    std::ranges::reverse(way.stretches);
    for (Stretch& stretch : way.stretches) std::ranges::reverse(stretch.moves);
    return way;
  }

  // --- other stages ---

  [[nodiscard]] ValueId source_named(const std::string& name) const {
    const auto is_it = [&](const Source& source) { return source.kind == SourceKind::received && plan_.graph().values[source.value].name == name; };
    return std::ranges::find_if(input_.plan->graph().sources, is_it)->value;
  }

  Status receive(const Instruction& instruction) {
    const ProgramValueId result = instruction.results[0];
    const auto end = std::ranges::find(ends_->received, instruction.message()->value, &Crossing::value);
    const ProgramValueId wire = made_.received[static_cast<std::size_t>(end - ends_->received.begin())];
    const Layout& gradient = plan_.choice<PlannedFork>(plan_.fork(source_named(end->value))).layouts.gradient;
    made_.gradients[result] = gradient;
    there_.insert(result);
    Result<Conversion> arrives = straight(wire, result, gradient);
    if (!arrives) return arrives.error();
    steps_.push_back({here_, std::move(*arrives)});
    made_at_[result] = here_;
    return Done{};
  }

  // To a value that is there already, and its gradient back.
  Result<Conversion> straight(ProgramValueId from, ProgramValueId result, const Layout& gradient) const {
    Result<std::vector<Move>> moves = straight_way(made_.program.type(from), layout_of(result), made_.program.mesh, input_.profile);
    if (!moves) return moves.error();
    ShardedType back = made_.program.type(result);
    back.layout = gradient;
    Result<std::vector<Move>> gradients = straight_way(back, *made_.gradients[from], made_.program.mesh, input_.profile);
    if (!gradients) return gradients.error();
    return Conversion{"", from, result, std::move(*moves), std::move(*gradients), false, ""};
  }

  // What is sent to several stages goes to the next one, once.
  Status send() {
    if (ends_ == nullptr) return Done{};
    for (const Crossing& crossing : ends_->sent) {
      if (crossing.handed_on) {
        const auto end = std::ranges::find(ends_->received, crossing.value, &Crossing::value);
        made_.sent.push_back(made_.received[static_cast<std::size_t>(end - ends_->received.begin())]);
        continue;
      }
      const auto is_it = [&](const Output& output) { return output.kind == OutputKind::sent && plan_.graph().values[output.value].name == crossing.value; };
      const ValueId of = std::ranges::find_if(input_.plan->graph().outputs, is_it)->value;
      const auto sends = [&](const Instruction& each) {
        return each.kind() == InstructionKind::send && each.phase == Phase::forward && each.message()->value == crossing.value;
      };
      const Instruction& instruction = *std::ranges::find_if(input_.program.instructions, sends);
      const std::uint32_t variable = plan_.output(of);
      const Result<ProgramValueId> value = use(instruction.operands[0].value, of, plan_.choice<PlannedOutput>(variable).layouts, {variable, 0}, "");
      if (!value) return value.error();
      const ProgramValueId wire = made_.add(made_.program.values[*value].name, crossing.type);
      made_.gradients[wire] = crossing.type.layout;
      Result<Conversion> leaves = straight(*value, wire, crossing.type.layout);
      if (!leaves) return leaves.error();
      steps_.push_back({here_, std::move(*leaves)});
      made_.sent.push_back(wire);
    }
    return Done{};
  }

  // --- computing ---

  Status read(Call call) {
    for (const ProgramOperand& operand : call.whole.operands) {
      if (there_.contains(way_to(operand.value).root)) continue;
      return bad_input("'" + call.whole.name + "' (" + call.whole.compute()->op + ") takes '" + made_.program.values[operand.value].name +
                       "', which the program's forward does not make; emit without the pass that takes it out");
    }
    for (const Instruction& step : call.steps) there_.insert(step.results.begin(), step.results.end());
    const std::uint32_t variable = plan_.node(call.whole.name);
    if (variable == kNoId && !plan_.knows(call.whole.name) &&
        std::ranges::any_of(call.whole.operands, [&](const ProgramOperand& operand) { return has_gradient(way_to(operand.value)); })) {
      return bad_input("the program's forward computes '" + call.whole.name + "' (" + call.whole.compute()->op +
                       "), which is no node of the model, and nothing says how its gradient lies; emit without the pass that puts it there");
    }
    if (Status status = variable != kNoId ? give_gradients(call, variable) : give_values(call); !status) return status;
    steps_.push_back({here_, std::move(call)});
    return Done{};
  }

  [[nodiscard]] bool has_gradient(const Way& way) const { return made_.gradients[way.root].has_value() || parameters_.contains(way.root); }

  using Handed = std::multimap<ProgramValueId, const ProgramOperand*>;  // operands of a call, by the values that they were

  Status give_gradients(Call& call, std::uint32_t variable) {
    const PlannedNode& planned = plan_.choice<PlannedNode>(variable);
    const Node& node = plan_.graph().nodes[planned.node];
    Instruction& whole = call.whole;
    if (whole.operands.size() != node.operands.size() || whole.results.size() != node.results.size()) {
      return bad_input("the program computes '" + node.name + "' of other operands than the model does, and the plan says nothing of their gradients; " +
                       "emit without the pass that changes it");
    }
    Handed handed;
    for (std::uint32_t i = 0; i < whole.operands.size(); ++i) {
      ProgramOperand& operand = whole.operands[i];
      const ProgramValueId before = operand.value;
      if (plan_.has_gradient(node.operands[i].value)) {
        const Result<ProgramValueId> value = use(before, node.operands[i].value, planned.call.operands[i], {variable, i}, node.name);
        if (!value) return value.error();
        operand.value = *value;
      }
      handed.emplace(before, &operand);
    }
    for (std::size_t i = 0; i < whole.results.size(); ++i) {
      if (plan_.has_gradient(node.results[i])) made_.gradients[whole.results[i]] = planned.call.results[i].gradient;
    }
    hand(call.steps, handed);
    return Done{};
  }

  // What is computed without a gradient (a comparison) may read what has one.
  Status give_values(Call& call) {
    Handed handed;
    for (ProgramOperand& operand : call.whole.operands) {
      const ProgramValueId before = operand.value;
      operand.value = without_gradient(before, call.whole.node);
      handed.emplace(before, &operand);
    }
    hand(call.steps, handed);
    return Done{};
  }

  // Operands that were one value, and whose gradients differ, are told apart by their names.
  static void hand(std::vector<Instruction>& steps, const Handed& handed) {
    for (Instruction& step : steps) {
      for (ProgramOperand& operand : step.operands) {
        const auto [begin, end] = handed.equal_range(operand.value);
        if (begin == end) continue;
        const auto same = std::find_if(begin, end, [&](const auto& each) { return each.second->name == operand.name; });
        operand.value = (same != end ? same : begin)->second->value;
      }
    }
  }

  // --- ways ---

  // A value with a gradient, for one more use, in the layouts that the plan gives that use.
  Result<ProgramValueId> use(ProgramValueId value, ValueId of, const PortLayouts& needed, User user, const std::string& node) {
    Way way = way_to(value);
    std::ranges::reverse(way.stretches);  // taken from the back
    const std::uint32_t fork = plan_.fork(of);
    const PortLayouts& settled = fork != kNoId ? plan_.choice<PlannedFork>(fork).layouts : needed;
    const User settles = fork != kNoId ? User{fork, 0} : user;
    const auto parameter = parameters_.find(way.root);
    if (!has_gradient(way)) return strays(of, node);
    Result<ProgramValueId> here = parameter != parameters_.end() ? load(parameter->second, of, settled, settles, way, node)
                                                                : convert(way.root, of, settled, settles, way, node, fork != kNoId);
    if (here) here = convert(*here, of, needed, user, way, node);
    // An addend, which one rank alone adds: its gradient is there on all.
    if (here && !way.stretches.empty()) here = convert(*here, of, {layout_of(way.stretches.back().result), needed.gradient}, user, way, node);
    if (here && !way.stretches.empty()) return strays(of, node);
    return here;
  }

  [[nodiscard]] Error strays(ValueId of, const std::string& node) const {
    return bad_input("the program's forward takes '" + value_name(plan_.graph(), of) + "' to '" + node +
                     "' by another way than the plan's, by which autograd takes the gradient back; emit without the pass that changes it");
  }

  // The moves to `to` that come next on the way; none if the value lies there. Null: they lead elsewhere.
  std::optional<Stretch> next(ProgramValueId here, const Layout& to, Way& way) const {
    if (layout_of(here) == to) return Stretch{here, {}};
    if (way.stretches.empty() || layout_of(way.stretches.back().result) != to) return std::nullopt;
    Stretch stretch = std::move(way.stretches.back());
    way.stretches.pop_back();
    return stretch;
  }

  Result<ProgramValueId> load(std::uint32_t index, ValueId of, const PortLayouts& to, User user, Way& way, const std::string& node) {
    const ProgramParameter& parameter = made_.program.parameters[index];
    const std::optional<Stretch> stretch = next(parameter.value, to.value, way);
    if (!stretch) return strays(of, node);
    const auto [known, inserted] = loaded_.try_emplace({index, to.value}, kNoId);
    if (!inserted) return known->second;
    Result<std::vector<Move>> reduction = back(of, user, parameter.value, to.gradient, parameter.reduced);
    if (!reduction) return reduction.error();
    const bool is_first = !stretch->moves.empty() && taken_.insert(stretch->result).second;
    known->second = is_first ? stretch->result : copy_of(stretch->result);
    made_.gradients[known->second] = to.gradient;
    steps_.push_back({here_, Load{node, index, known->second, stretch->moves, std::move(*reduction)}});
    made_at_[known->second] = here_;
    return known->second;
  }

  Result<ProgramValueId> convert(ProgramValueId here, ValueId of, const PortLayouts& to, User user, Way& way, const std::string& node,
                                 bool settles = false) {
    const std::optional<Stretch> stretch = next(here, to.value, way);
    if (!stretch) return strays(of, node);
    if (stretch->moves.empty() && made_.gradients[here] == to.gradient) return here;
    Result<std::vector<Move>> gradient = back(of, user, here, to.gradient, *made_.gradients[here]);
    if (!gradient) return gradient.error();
    return travel(here, *stretch, to.gradient, std::move(*gradient), node, settles);
  }

  // The value alone.
  ProgramValueId without_gradient(ProgramValueId value, const std::string& node) {
    const Way way = way_to(value);
    if (!has_gradient(way)) return value;
    ProgramValueId here = way.root;
    for (const Stretch& stretch : way.stretches) here = travel(here, stretch, std::nullopt, {}, node);
    return here;
  }

  ProgramValueId travel(ProgramValueId from, const Stretch& stretch, const std::optional<Layout>& gradient, std::vector<Move> back, const std::string& node,
                        bool settles = false) {
    const auto [known, inserted] = converted_.try_emplace({from, layout_of(stretch.result), gradient}, kNoId);
    if (!inserted) return known->second;
    const bool is_first = !stretch.moves.empty() && taken_.insert(stretch.result).second;
    const ProgramValueId result = known->second = is_first ? stretch.result : copy_of(stretch.result);
    made_.gradients[result] = gradient;
    const Instruction* at = is_first ? std::max(moves_.at(stretch.result), made_at_[from]) : here_;
    const auto again = stretch.moves.empty() ? again_.end() : again_.find(conversion_of(*moves_.at(stretch.result)));
    steps_.push_back({at, Conversion{node, from, result, stretch.moves, std::move(back), settles, again == again_.end() ? "" : again->second}});
    made_at_[result] = at;
    return result;
  }

  // Of the gradient of `like`. Gradients that the loss does not depend on are not in the plan.
  Result<std::vector<Move>> back(ValueId of, User user, ProgramValueId like, const Layout& from, const Layout& to) const {
    std::vector<Move> moves;
    if (const PlannedConversion* planned = plan_.way(of, user, from, to)) {
      for (const PlannedMove& move : planned->moves) moves.push_back(move.move);
      return moves;
    }
    ShardedType gradient = made_.program.type(like);
    gradient.layout = from;
    return straight_way(gradient, to, made_.program.mesh, input_.profile);
  }

  [[nodiscard]] const Layout& layout_of(ProgramValueId value) const { return made_.program.type(value).layout; }

  ProgramValueId copy_of(ProgramValueId value) {
    const ProgramValue copy = made_.program.values[value];
    return made_.add(copy.name, copy.type);
  }

  const BackendInput& input_;
  const StageEnds* ends_;
  const GradientPlan plan_;
  ForwardProgram made_;
  std::vector<Placed> steps_;
  const Instruction* here_ = nullptr;                                        // that is read now
  std::map<ProgramValueId, const Instruction*> made_at_;                     // of loads and conversions: where they stand
  std::set<ProgramValueId> there_;                                           // inputs, stored parameters, and what is computed so far
  std::map<ProgramValueId, std::uint32_t> parameters_;                       // by the stored value
  std::map<std::uint32_t, std::vector<const Instruction*>> calls_;           // their steps
  std::map<ProgramValueId, const Instruction*> moves_;                       // of conversions, by result
  std::map<std::uint32_t, std::string> again_;                               // by conversion: Conversion::again
  std::set<ProgramValueId> passing_;                                         // results of moves in the middle of a conversion
  std::map<std::pair<std::uint32_t, Layout>, ProgramValueId> loaded_;
  std::map<std::tuple<ProgramValueId, Layout, std::optional<Layout>>, ProgramValueId> converted_;
  std::set<ProgramValueId> taken_;                                           // by loads and conversions
};

}  // namespace

ProgramValueId ForwardProgram::add(std::string name, ShardedType type) {
  program.values.push_back({std::move(name), std::move(type)});
  gradients.resize(program.values.size());
  return static_cast<ProgramValueId>(program.values.size() - 1);
}

ShardedType ForwardProgram::gradient_of(ProgramValueId value) const {
  ShardedType gradient = program.type(value);
  gradient.layout = *gradients[value];
  return gradient;
}

Result<ForwardProgram> forward_of(const BackendInput& input, const StageEnds* ends) { return Reader(input, ends).run(); }

}  // namespace meshwright::torch
