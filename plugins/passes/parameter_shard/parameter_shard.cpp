// Joins the computing to the parameters as they are stored. Parameters that are computed with in another layout are gathered
// a unit at a time, beside the unit before if they are prefetched (ZeRO-3, as FSDP does it). Gradients of microbatches are
// added up and reduced, once a step or after each, to where the optimizer's state lies; the optimizer's steps stand at
// the end, and gather what they changed where the value is held whole (ZeRO-1 and 2).
#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "meshwright/gather_units.h"
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

std::vector<std::uint32_t> units_of(const Program& program, std::int64_t bucket_bytes) {
  std::vector<NamedBytes> parameters;
  for (const ProgramParameter& parameter : program.parameters) parameters.push_back({parameter.name, program.type(parameter.value).type.bytes()});
  return gather_units(parameters, bucket_bytes);
}

class Joiner {
 public:
  Joiner(Program& program, std::int64_t bucket_bytes) : program_(program), units_(units_of(program, bucket_bytes)), gradients_(program.parameters.size()) {}

  void run() {
    std::vector<ProgramValueId> stands_for(program_.values.size());
    for (ProgramValueId id = 0; id < stands_for.size(); ++id) stands_for[id] = id;
    for (std::uint32_t i = 0; i < program_.parameters.size(); ++i) of_parameter_[program_.parameters[i].value] = i;
    std::vector<Instruction> instructions = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(instructions.size() + 2 * program_.parameters.size());
    for (Instruction& instruction : instructions) {
      for (ProgramOperand& operand : instruction.operands) operand.value = stands_for[operand.value];
      if (instruction.phase != phase_) begin(instruction.phase);
      if (instruction.kind() == InstructionKind::load_parameter) {
        load(instruction, stands_for);
      } else if (instruction.kind() == InstructionKind::store_gradient) {
        store(instruction);
      } else {
        note_uses(instruction);
        program_.instructions.push_back(std::move(instruction));
      }
    }
    put_gathers();
    for (ProgramOutput& output : program_.outputs) output.value = stands_for[output.value];
    for (std::uint32_t i = 0; i < program_.parameters.size(); ++i) {
      if (gradients_[i].sum != kNoId) update(i);
    }
  }

 private:
  struct Gradient {
    ProgramValueId sum = kNoId;  // of all microbatches
    PlannedPath reduction;       // from how the backward yields it
  };

  [[nodiscard]] const Layout& layout_of(ProgramValueId id) const { return program_.type(id).layout; }

  [[nodiscard]] bool adds_up() const { return program_.order.microbatches > 1; }

  [[nodiscard]] bool reduces_each(const ProgramParameter& parameter) const {
    return program_.training.reduces_each_microbatch(parameter.zero);
  }

  ProgramValueId make(std::string name, ShardedType type) {
    program_.values.push_back({std::move(name), std::move(type)});
    return static_cast<ProgramValueId>(program_.values.size() - 1);
  }

  // --- gathers ---

  void begin(Phase phase) {
    phase_ = phase;
    phase_begins_ = program_.instructions.size();
    turns_.clear();
  }

  void load(const Instruction& load, std::vector<ProgramValueId>& stands_for) {
    const ProgramParameter& parameter = program_.parameters[load.parameter];
    const ProgramValueId stored = parameter.value;
    const ProgramValueId wanted = load.results[0];
    const std::size_t turn = turn_of(load.parameter);
    if (layout_of(stored) == layout_of(wanted)) {
      stands_for[wanted] = stored;
      return;
    }
    of_parameter_[wanted] = load.parameter;
    const std::size_t ahead = turn == 0 ? phase_begins_ : turns_[turn - 1].at;
    gathers_[parameter.prefetch ? ahead : turns_[turn].at].push_back(conversion(load, stored, wanted, std::get<LoadParameter>(load.action).path));
  }

  // When it is its unit's turn in this phase. A unit that comes back, after others, is where it was.
  std::size_t turn_of(std::uint32_t parameter) {
    const std::uint32_t unit = units_[parameter];
    const auto known = std::find_if(turns_.begin(), turns_.end(), [&](const Turn& turn) { return turn.unit == unit; });
    if (known != turns_.end()) return static_cast<std::size_t>(known - turns_.begin());
    turns_.push_back({unit, program_.instructions.size()});
    return turns_.size() - 1;
  }

  // Of parameters that are at hand: as they are stored, or kept since the forward.
  void note_uses(const Instruction& instruction) {
    for (const ProgramOperand& operand : instruction.operands) {
      const auto parameter = of_parameter_.find(operand.value);
      if (parameter == of_parameter_.end()) continue;
      turn_of(parameter->second);
      if (instruction.kind() == InstructionKind::convert) of_parameter_[instruction.results[0]] = parameter->second;
    }
  }

  void put_gathers() {
    if (gathers_.empty()) return;
    std::vector<Instruction> instructions = std::move(program_.instructions);
    std::size_t count = instructions.size();
    for (const auto& [before, gathers] : gathers_) count += gathers.size();
    program_.instructions.clear();
    program_.instructions.reserve(count + 4 * program_.parameters.size());  // behind these stand the updates
    std::size_t next = 0;
    const auto go_on = [&](std::size_t end) {
      for (; next < end; ++next) program_.instructions.push_back(std::move(instructions[next]));
    };
    for (auto& [before, gathers] : gathers_) {
      go_on(before);
      for (Instruction& gather : gathers) program_.instructions.push_back(std::move(gather));
    }
    go_on(instructions.size());
  }

  // --- gradients ---

  void store(const Instruction& store) {
    const ProgramParameter& parameter = program_.parameters[store.parameter];
    Gradient& gradient = gradients_[store.parameter];
    ProgramValueId here = cast(store, store.operands[0].value);
    const PlannedPath& reduction = gradient.reduction = std::get<StoreGradient>(store.action).path;
    if (reduces_each(parameter)) here = convert(store, here, parameter.reduced, "gradient of " + store.name, reduction);
    gradient.sum = adds_up() ? add(store, here, here != store.operands[0].value) : here;
    if (reduces_each(parameter) || program_.training.reduces_at_end(parameter.zero)) return;
    Instruction complete = store;
    if (adds_up()) complete.when = When::last;
    gradient.sum = convert(complete, gradient.sum, parameter.reduced, "gradient of " + store.name, reduction);
  }

  ProgramValueId cast(const Instruction& store, ProgramValueId gradient) {
    ShardedType type = program_.type(gradient);
    const DType wanted = program_.training.gradient_dtype(type.type.dtype);
    if (wanted == type.type.dtype) return gradient;
    type.type.dtype = wanted;
    Instruction cast = local_compute(store, "aten._to_copy", {gradient});
    cast.results = {make("gradient of " + store.name, type)};
    cast.operands[0].name = "self";
    program_.instructions.push_back(cast);
    return cast.results[0];
  }

  // Into a buffer of the step: the first gradient if that was `made` here, by a cast or a move; else others may read its storage,
  // and the buffer begins as zeros.
  ProgramValueId add(const Instruction& store, ProgramValueId addend, bool made) {
    const ProgramValueId sum = make("sum of gradients of " + store.name, program_.type(addend));
    program_.values[sum].of_step = true;
    Instruction begin = local_compute(store, made ? "" : "aten.zeros", {});
    if (made) begin.operands = {{"", addend, layout_of(addend)}};
    Instruction accumulate = local_compute(store, "", {sum, addend});
    begin.when = When::first;
    accumulate.when = made ? When::later : When::each;
    accumulate.action = Accumulate{};
    if (made) begin.action = Accumulate{};
    for (Instruction* instruction : {&begin, &accumulate}) {
      if (made && reduces_each(program_.parameters[store.parameter])) instruction->stream = Stream::communication;
      instruction->results = {sum};
      program_.instructions.push_back(std::move(*instruction));
    }
    return sum;
  }

  Instruction local_compute(const Instruction& origin, const char* op, const std::vector<ProgramValueId>& operands) const {
    Instruction made = origin;
    made.action = Compute{.op = op, .local = true};
    made.operands.clear();
    for (const ProgramValueId operand : operands) made.operands.push_back({"", operand, layout_of(operand)});
    return made;
  }

  void update(std::uint32_t index) {
    Instruction update;
    update.action = Update{};
    update.phase = Phase::update;
    update.name = program_.parameters[index].name;
    update.parameter = index;
    const ProgramParameter parameter = program_.parameters[index];
    const std::string gradient_name = "gradient of " + parameter.name;
    ProgramValueId gradient = gradients_[index].sum;
    if (program_.training.reduces_at_end(parameter.zero)) gradient = convert(update, gradient, parameter.reduced, gradient_name, gradients_[index].reduction);
    gradient = convert(update, gradient, parameter.state, gradient_name, parameter.settle);
    program_.parameters[index].gradient = gradient;
    update.operands = {{"", gradient, parameter.state}};
    if (layout_of(parameter.value) == parameter.state) {
      program_.instructions.push_back(update);
      return;
    }
    const ProgramValueId part = convert(update, parameter.value, parameter.state, parameter.name, parameter.cut);
    update.operands.push_back({"", part, parameter.state});
    program_.instructions.push_back(update);
    program_.parameters[index].updated = convert(update, part, layout_of(parameter.value), parameter.name, parameter.gather);
  }

  ProgramValueId convert(const Instruction& origin, ProgramValueId from, const Layout& to, std::string name, const PlannedPath& path) {
    if (layout_of(from) == to) return from;
    ShardedType type = program_.type(from);
    type.layout = to;
    const ProgramValueId result = make(std::move(name), std::move(type));
    program_.instructions.push_back(conversion(origin, from, result, path));
    return result;
  }

  [[nodiscard]] Instruction conversion(const Instruction& origin, ProgramValueId from, ProgramValueId to, const PlannedPath& path) const {
    Instruction convert = origin;
    convert.action = Convert{path};
    convert.operands = {{"", from, layout_of(from)}};
    convert.results = {to};
    convert.stream = Stream::communication;
    return convert;
  }

  struct Turn {
    std::uint32_t unit = kNoId;
    std::size_t at = 0;  // the instruction that first computes with it, or what is converted for that
  };

  Program& program_;
  const std::vector<std::uint32_t> units_;  // by parameter
  Phase phase_ = Phase::forward;
  std::size_t phase_begins_ = 0;                      // the instruction
  std::vector<Turn> turns_;                           // of units in this phase
  std::map<ProgramValueId, std::uint32_t> of_parameter_;  // values that are parameters, or copies in other layouts, and which
  std::map<std::size_t, std::vector<Instruction>> gathers_;  // by the instruction that they stand before
  std::vector<Gradient> gradients_;                   // by parameter
};

// Names are unique in a program; the copies made above share their origin's.
void number_copies(Program& program, std::size_t first) {
  std::unordered_map<std::string_view, int> copies;  // of names that stay as they are
  copies.reserve(program.values.size());
  for (std::size_t i = 0; i < first; ++i) copies.emplace(program.values[i].name, 0);
  for (std::size_t i = first; i < program.values.size(); ++i) {
    std::string& name = program.values[i].name;
    const std::string base = name;
    while (copies.contains(name)) name = base + "'" + std::to_string(++copies.at(base));
    copies.emplace(name, 0);
  }
}

class ParameterShard final : public ProgramPass {
  [[nodiscard]] bool alters_backward() const override { return false; }

  Result<Program> do_run(Program program, const PlanningContext& context) const override {
    const std::size_t before = program.values.size();
    Joiner(program, context.profile.bucket_bytes).run();
    number_copies(program, before);
    return program;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "parameter_shard", "0.2.0", "Apache-2.0",
                  "Gathers stored parameters, adds up and reduces their gradients, updates them", nullptr, nullptr, 0,
                  (create_plugin<ProgramPass, ParameterShard>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
