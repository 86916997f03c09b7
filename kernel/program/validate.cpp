#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "program/validate.h"
#include "program/waits.h"

namespace meshwright {

namespace {

// What would join two layouts, in words: the first axis on which they differ.
std::string missing_move(const Layout& have, const Layout& need) {
  for (std::size_t axis = 0; axis < need.mesh_rank(); ++axis) {
    if (have[axis] == need[axis]) continue;
    const std::string over = " over axis " + std::to_string(axis) + " is missing";
    if (have[axis].is_partial()) return (need[axis].is_shard() ? "a reduce_scatter" : "an all_reduce") + over;
    if (have[axis].is_replicate()) return (need[axis].is_shard() ? "a slice" : "a keep_one") + over;
    return (need[axis].is_shard() ? "an all_to_all" : "an all_gather") + over;
  }
  return "they are of different meshes";
}

constexpr std::int64_t kUnlike = 3;  // microbatches that may run other instructions than each other: the first, one in between, the last

// Each microbatch's forward and backward before the next one's.
ShortenedOrder one_after_the_other(const StepOrder& order) {
  ShortenedOrder made{std::min(order.microbatches, kUnlike), {}, {}};
  for (std::int64_t microbatch = 0; microbatch < made.microbatches; ++microbatch) {
    made.events.push_back({Phase::forward, microbatch});
    if (order.has_parts()) {
      made.events.push_back({Phase::input_gradient, microbatch});
      made.events.push_back({Phase::weight_gradient, microbatch});
    } else {
      made.events.push_back({Phase::backward, microbatch});
    }
  }
  made.events.push_back({Phase::update, made.microbatches - 1});
  return made;
}

// Goes through a step as an order says; of repetitions two are enough, since all do what these do.
class Validator {
 public:
  // In this order, which is one of the program with fewer microbatches.
  Validator(const Program& program, ShortenedOrder order)
      : program_(program),
        order_(std::move(order)),
        seen_(program.instructions.size(), false),
        made_(program.values.size() * static_cast<std::size_t>(order_.microbatches), false),
        gone_(made_.size(), false) {}

  Status run() {
    if (Status status = check_phases(); !status) return status;
    if (Status status = check_again(); !status) return status;
    if (Status status = begin(); !status) return status;
    for (const Occurrence& here : occurrences(program_, order_.events, order_.microbatches)) {
      const Instruction& instruction = program_.instructions[here.instruction];
      microbatch_ = here.microbatch;
      Status status = visit(here.instruction);
      if (!status) return add_context("instruction " + std::to_string(here.instruction) + " (" + text(instruction) + ")" + of_microbatch(), status.error());
    }
    if (Status status = check_updated(); !status) return status;
    return check_outputs();
  }

  // Behind `run`: nothing is held in the end but parameters and outputs.
  Status check_frees() const {
    std::vector<bool> kept = gone_;
    for (const ProgramParameter& parameter : program_.parameters) {
      kept[program_.place(parameter.value, 0)] = true;
      if (parameter.updated != kNoId) kept[program_.place(parameter.updated, order_.microbatches - 1)] = true;
    }
    for (const ProgramOutput& output : program_.outputs) kept[program_.place(output.value, shortened_microbatch(output.microbatch))] = true;
    for (std::size_t at = 0; at < made_.size(); ++at) {
      if (made_[at] && !kept[at]) return bad_input("'" + program_.values[at % program_.values.size()].name + "' is never freed");
    }
    return Done{};
  }

 private:
  [[nodiscard]] bool known(ProgramValueId id) const { return id < program_.values.size(); }

  // The last one is the last one; those in between are alike.
  [[nodiscard]] std::int64_t shortened_microbatch(std::int64_t microbatch) const {
    return microbatch + 1 == program_.order.microbatches ? order_.microbatches - 1 : std::min(microbatch, order_.microbatches - 1);
  }

  [[nodiscard]] std::string of_microbatch() const {
    return program_.order.microbatches == 1 ? "" : " of microbatch " + std::to_string(microbatch_);
  }

  static std::string text(const Instruction& instruction) {
    std::string text = name(instruction.kind());
    if (const Compute* compute = instruction.compute()) text = compute->op;
    if (const Move* move = instruction.move()) text = name(move->kind);
    return instruction.name.empty() ? text : text + " of '" + instruction.name + "'";
  }

  Status check_phases() const {
    for (std::size_t i = 1; i < program_.instructions.size(); ++i) {
      const Phase before = program_.instructions[i - 1].phase, here = program_.instructions[i].phase;
      if (here < before) return bad_input("instruction " + std::to_string(i) + " is of the " + name(here) + ", and stands behind the " + name(before));
    }
    return Done{};
  }

  // What runs again does what it did in the forward: the same call, under the name from which its random numbers come, on the same layouts and to the same ones. What
  // is converted again of what was kept goes where it went.
  Status check_again() const {
    if (std::ranges::none_of(program_.instructions, &Instruction::again)) return Done{};
    std::unordered_multimap<std::string_view, const Instruction*> first_runs;
    std::unordered_multimap<std::uint32_t, const Instruction*> first_moves;  // by conversion
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.phase != Phase::forward) continue;
      if (instruction.compute() != nullptr) first_runs.emplace(instruction.name, &instruction);
      if (converts(instruction)) first_moves.emplace(step_of(instruction)->conversion, &instruction);
    }
    std::unordered_set<ProgramValueId> made_again;
    for (const Instruction& instruction : program_.instructions) {
      if (!instruction.again) continue;
      if (!is_backward(instruction.phase)) return bad_input(text(instruction) + " runs again, but is of no backward");
      bool is_as_before = true;
      if (instruction.compute() != nullptr) {
        const auto [begin, end] = first_runs.equal_range(instruction.name);
        is_as_before = std::any_of(begin, end, [&](const auto& run) { return is_the_same(*run.second, instruction); });
      } else if (converts(instruction)) {
        const auto [begin, end] = first_moves.equal_range(step_of(instruction)->conversion);
        is_as_before = std::any_of(begin, end, [&](const auto& run) { return is_the_same_move(*run.second, instruction, made_again); });
      }
      if (!is_as_before) return bad_input(text(instruction) + " runs again otherwise than it ran in the forward");
      made_again.insert(instruction.results.begin(), instruction.results.end());
    }
    return Done{};
  }

  // Whether it is a step of a conversion of an activation.
  static bool converts(const Instruction& instruction) {
    return step_of(instruction) != nullptr && step_of(instruction)->conversion != kNoId && instruction.parameter == kNoId && instruction.operands.size() == 1 && instruction.results.size() == 1;
  }
  static const MoveStep* step_of(const Instruction& instruction) { return std::get_if<MoveStep>(&instruction.action); }

  // Of the same value, or of one that was made again.
  [[nodiscard]] bool is_the_same_move(const Instruction& first, const Instruction& again, const std::unordered_set<ProgramValueId>& made_again) const {
    const ProgramValueId one = first.operands[0].value, other = again.operands[0].value;
    return step_of(first)->move == step_of(again)->move && (one == other || made_again.contains(other)) && have_one_type(one, other) && have_one_type(first.results[0], again.results[0]);
  }

  [[nodiscard]] bool have_one_type(ProgramValueId a, ProgramValueId b) const { return known(a) && known(b) && program_.type(a) == program_.type(b); }

  [[nodiscard]] bool is_the_same(const Instruction& first, const Instruction& again) const {
    const Compute &one = *first.compute(), &other = *again.compute();
    const auto same_type = [this](ProgramValueId a, ProgramValueId b) { return have_one_type(a, b); };
    const auto same_operand = [](const ProgramOperand& a, const ProgramOperand& b) { return a.name == b.name && a.needed == b.needed; };
    return one.op == other.op && one.attributes == other.attributes && one.axes == other.axes && one.local == other.local &&
           std::ranges::equal(first.operands, again.operands, same_operand) && std::ranges::equal(first.results, again.results, same_type);
  }

  Status begin() {
    for (const Instruction& call : program_.calls) {
      if (call.compute() == nullptr) return bad_input("the call at '" + call.name + "' is of no op");
      const bool has_all = std::ranges::all_of(call.operands, [&](const ProgramOperand& operand) { return known(operand.value); }) &&
                           std::ranges::all_of(call.results, [&](ProgramValueId result) { return known(result); });
      if (!has_all) return bad_input("the call of " + call.compute()->op + " at '" + call.name + "' is of what is no value of the program");
    }
    for (const ProgramParameter& parameter : program_.parameters) {
      if (!known(parameter.value)) return bad_input("parameter '" + parameter.name + "' has no value");
      made_[program_.place(parameter.value, 0)] = true;
    }
    for (const ProgramInput& input : program_.inputs) {
      if (!known(input.value)) return bad_input("an input has no value");
      if (input.microbatch < 0 || input.microbatch >= program_.order.microbatches) return bad_input("'" + program_.values[input.value].name + "' is an input of a microbatch that there is not");
      if (input.microbatch < order_.microbatches) made_[program_.place(input.value, input.microbatch)] = true;
    }
    return Done{};
  }

  Status check_updated() const {
    for (const ProgramParameter& parameter : program_.parameters) {
      if (parameter.updated == kNoId) continue;
      if (!known(parameter.updated) || !made_[program_.place(parameter.updated, order_.microbatches - 1)]) return bad_input("the new value of '" + parameter.name + "' is never made");
      const ShardedType &before = program_.type(parameter.value), &after = program_.type(parameter.updated);
      if (before.layout == after.layout) continue;
      return bad_input("parameter '" + parameter.name + "' is stored as " + to_string(before.layout, before.atoms) + " before the step, as " +
                       to_string(after.layout, after.atoms) + " after it: " + missing_move(after.layout, before.layout));
    }
    return Done{};
  }

  Status check_outputs() const {
    for (const ProgramOutput& output : program_.outputs) {
      if (!known(output.value) || !made_[program_.place(output.value, shortened_microbatch(output.microbatch))]) return bad_input("an output is never made");
      const ProgramValue& value = program_.values[output.value];
      if (value.type.layout.has_partial()) {
        return bad_input("the output '" + value.name + "' is partial, " + to_string(value.type.layout, value.type.atoms) +
                         ": " + missing_move(value.type.layout, Layout(program_.mesh.rank())));
      }
    }
    return Done{};
  }

  Status visit(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    const std::int64_t before = instruction.operands_from(microbatch_);
    for (const ProgramOperand& operand : instruction.operands) {
      if (Status status = check_operand(operand, before); !status) return status;
    }
    if (!seen_[index]) {  // what does not depend on when it runs
      if (Status status = check_kind(instruction); !status) return status;
      if (instruction.call() != kNoId && instruction.call() >= program_.calls.size()) return bad_input("stands in the place of no call of the program");
      for (const ProgramValueId result : instruction.results) {
        if (!known(result)) return bad_input("a result is no value of the program");
        const ShardedType& type = program_.type(result);
        if (!fits(type.layout, type.atoms, program_.mesh)) {
          return bad_input("'" + program_.values[result].name + "' cannot lie as " + to_string(type.layout, type.atoms));
        }
      }
      seen_[index] = true;
    }
    if (instruction.takes_over() || instruction.kind() == InstructionKind::free) {
      for (const ProgramOperand& operand : instruction.operands) gone_[program_.place(operand.value, before)] = true;
    }
    for (const ProgramValueId result : instruction.results) {
      if (made_[program_.place(result, microbatch_)] && !instruction.in_place()) return bad_input("a result is made twice");
      made_[program_.place(result, microbatch_)] = true;
    }
    return Done{};
  }

  Status check_operand(const ProgramOperand& operand, std::int64_t microbatch) const {
    if (!known(operand.value)) return bad_input("an operand is no value of the program");
    const ProgramValue& value = program_.values[operand.value];
    if (microbatch < 0 || !made_[program_.place(operand.value, microbatch)]) return bad_input("'" + value.name + "' is used before it is made");
    if (gone_[program_.place(operand.value, microbatch)]) return bad_input("'" + value.name + "' is used after it was freed");
    if (value.type.layout == operand.needed) return Done{};
    return bad_input("needs '" + value.name + "' as " + to_string(operand.needed, value.type.atoms) + ", but it is " +
                     to_string(value.type.layout, value.type.atoms) + ": " + missing_move(value.type.layout, operand.needed));
  }

  Status check_kind(const Instruction& instruction) {
    switch (instruction.kind()) {
      case InstructionKind::compute: return Done{};
      case InstructionKind::convert: return check_ends(instruction);
      case InstructionKind::move: return check_move(instruction);
      case InstructionKind::load_parameter:
      case InstructionKind::store_gradient: return check_parameter(instruction);
      case InstructionKind::accumulate: return check_sum(instruction);
      case InstructionKind::carry: return check_carry(instruction);
      case InstructionKind::update: return check_update(instruction);
      case InstructionKind::send:
      case InstructionKind::receive: return check_message(instruction);
      case InstructionKind::free: return Done{};
    }
    return Done{};
  }

  // What crosses from stage to stage is whole, in parts; who sends it and who receives it is held against the other stages (stages.h).
  Status check_message(const Instruction& instruction) const {
    const bool sends = instruction.kind() == InstructionKind::send;
    if (instruction.operands.size() != (sends ? 1 : 0) || instruction.results.size() != (sends ? 0 : 1)) return bad_input("takes or gives more than the one value of its message");
    const ProgramValueId id = sends ? instruction.operands[0].value : instruction.results[0];
    if (!known(id)) return bad_input("its message is of no value of the program");
    const ShardedType& type = program_.type(id);
    if (!type.layout.has_partial()) return Done{};
    return bad_input("'" + program_.values[id].name + "' is partial, " + to_string(type.layout, type.atoms) + ", and cannot go to another stage: " + missing_move(type.layout, Layout(program_.mesh.rank())));
  }

  Status check_sum(const Instruction& instruction) const {
    const std::size_t count = instruction.operands.size();
    const bool in_place = count == 2 && instruction.results.size() == 1 && instruction.results[0] == instruction.operands[0].value;
    const bool begins = count == 1 && instruction.results.size() == 1 && known(instruction.results[0]) && instruction.when == When::first;
    const bool sums = in_place || begins;
    if (!sums) return bad_input("takes a sum and an addend, and gives the sum");
    const ShardedType& sum = program_.type(instruction.results[0]);
    for (const ProgramOperand& operand : instruction.operands) {
      if (program_.type(operand.value) != sum) return bad_input("adds up what is not of one type and layout");
    }
    return Done{};
  }

  Status check_carry(const Instruction& instruction) const {
    if (Status status = check_ends(instruction); !status) return status;
    if (instruction.when != When::later) return bad_input("the first microbatch has none before it");
    if (program_.type(instruction.operands[0].value) != program_.type(instruction.results[0])) return bad_input("changes what it hands on");
    return Done{};
  }

  // The gradient and what changes lie as the optimizer's state does.
  Status check_update(const Instruction& instruction) const {
    if (Status status = check_parameter(instruction); !status) return status;
    const ProgramParameter& parameter = program_.parameters[instruction.parameter];
    if (instruction.operands.empty() || instruction.operands.size() > 2 || instruction.operands[0].value != parameter.gradient) {
      return bad_input("does not take the gradient of '" + parameter.name + "'");
    }
    const AtomShape& atoms = program_.type(parameter.value).atoms;
    const ProgramValueId changed = instruction.operands.size() == 2 ? instruction.operands[1].value : parameter.value;
    for (const ProgramValueId id : {parameter.gradient, changed}) {
      const Layout& here = program_.type(id).layout;
      if (here == parameter.state) continue;
      return bad_input("the optimizer's state of '" + parameter.name + "' is stored as " + to_string(parameter.state, atoms) + ", its " +
                       (id == changed ? "value" : "gradient") + " as " + to_string(here, atoms) + ": " + missing_move(here, parameter.state));
    }
    return Done{};
  }

  Status check_parameter(const Instruction& instruction) const {
    if (instruction.parameter < program_.parameters.size()) return Done{};
    return bad_input("names no parameter of the program");
  }

  Status check_ends(const Instruction& instruction) const {
    if (instruction.operands.size() != 1 || instruction.results.size() != 1 || !known(instruction.results[0])) {
      return bad_input("takes one value and gives one");
    }
    const ShardedType &from = program_.type(instruction.operands[0].value), &to = program_.type(instruction.results[0]);
    if (from.type == to.type && from.atoms == to.atoms) return Done{};
    return bad_input("changes more than the layout");
  }

  Status check_move(const Instruction& instruction) const {
    if (Status status = check_ends(instruction); !status) return status;
    const ShardedType &from = program_.type(instruction.operands[0].value), &to = program_.type(instruction.results[0]);
    const CostProfile no_prices;
    Move said = *instruction.move();
    said.result = to.layout;
    if (find_move({program_.mesh, from.atoms, no_prices, 1, false}, from.layout, said)) return Done{};
    return bad_input("no such move leads from " + to_string(from.layout, from.atoms) + " to " + to_string(to.layout, to.atoms));
  }

  const Program& program_;
  const ShortenedOrder order_;
  std::vector<bool> seen_;         // by instruction
  std::vector<bool> made_, gone_;  // by value and microbatch
  std::int64_t microbatch_ = 0;
};

}  // namespace

Status validate(const Program& program) { return Validator(program, shortened(program.order)).run(); }

Status validate_unfinished(const Program& program) { return Validator(program, one_after_the_other(program.order)).run(); }

Status validate_finished(const Program& program) {
  Validator validator(program, shortened(program.order));
  if (Status status = validator.run(); !status) return status;
  if (Status status = validator.check_frees(); !status) return status;
  if (Status status = check_waits(program); !status) return status;
  std::set<std::uint32_t> updated;
  for (const Instruction& instruction : program.instructions) {
    const Compute* compute = instruction.compute();
    if (compute != nullptr && !compute->local) return bad_input(compute->op + " at '" + instruction.name + "' is still on whole shapes: the reshape pass is missing");
    switch (instruction.kind()) {
      case InstructionKind::convert:
        return bad_input("'" + instruction.name + "' is still to be converted: the communication pass is missing");
      case InstructionKind::load_parameter:
      case InstructionKind::store_gradient:
        return bad_input("parameter '" + instruction.name + "' is still to be stored: the parameter_shard pass is missing");
      case InstructionKind::update: updated.insert(instruction.parameter); break;
      default: break;
    }
  }
  for (std::uint32_t i = 0; i < program.parameters.size(); ++i) {
    if (program.parameters[i].gradient == kNoId || updated.contains(i)) continue;
    return bad_input("parameter '" + program.parameters[i].name + "' has a gradient, but is not updated");
  }
  return Done{};
}

}  // namespace meshwright
