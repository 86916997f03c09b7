// Joins the computing to the parameters as they are stored. A parameter that is computed with in another layout is
// gathered before its first use, one op ahead if it is prefetched (ZeRO-3, as FSDP does it). Gradients of microbatches are
// added up and reduced, once a step or after each, to where the optimizer's state lies; the optimizer's steps stand at
// the end, and gather what they changed where the value is held whole (ZeRO-1 and 2).
#include <map>

#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class Joiner {
 public:
  Joiner(Program& program, const OpTable& ops) : program_(program), ops_(ops), gradients_(program.parameters.size()) {}

  void run() {
    std::vector<ProgramValueId> stands_for(program_.values.size());
    for (ProgramValueId id = 0; id < stands_for.size(); ++id) stands_for[id] = id;
    std::vector<Instruction> instructions = std::move(program_.instructions);
    program_.instructions.clear();
    for (Instruction& instruction : instructions) {
      for (ProgramOperand& operand : instruction.operands) operand.value = stands_for[operand.value];
      if (instruction.kind() == InstructionKind::load_parameter) {
        load(instruction, stands_for);
      } else if (instruction.kind() == InstructionKind::store_gradient) {
        store(instruction);
      } else {
        program_.instructions.push_back(std::move(instruction));
      }
    }
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

  void load(const Instruction& load, std::vector<ProgramValueId>& stands_for) {
    const ProgramParameter& parameter = program_.parameters[load.parameter];
    const ProgramValueId stored = parameter.value;
    const ProgramValueId wanted = load.results[0];
    if (layout_of(stored) == layout_of(wanted)) {
      stands_for[wanted] = stored;
      return;
    }
    Instruction gather = conversion(load, stored, wanted, std::get<LoadParameter>(load.action).path);
    auto place = program_.instructions.end();
    if (parameter.prefetch) place = before_last_work();
    if (place != program_.instructions.end()) gather.phase = place->phase;
    program_.instructions.insert(place, std::move(gather));
  }

  // The last op of the model that takes time; not what adds up gradients.
  std::vector<Instruction>::iterator before_last_work() {
    auto& instructions = program_.instructions;
    for (auto at = instructions.end(); at != instructions.begin();) {
      --at;
      if (at->kind() == InstructionKind::compute && at->parameter == kNoId && takes_time(*at)) return at;
    }
    return instructions.end();
  }

  bool takes_time(const Instruction& instruction) {
    const auto [known, inserted] = takes_time_.try_emplace(instruction.compute()->op, true);
    if (!inserted) return known->second;
    const OpFamily* family = ops_.find(instruction.compute()->op);
    if (family == nullptr) return true;
    const Node node = node_of(instruction);
    OpCall call{node, {}, {}};
    for (const ProgramOperand& operand : instruction.operands) call.operands.push_back(program_.type(operand.value).type);
    for (const ProgramValueId result : instruction.results) call.results.push_back(program_.type(result).type);
    const Result<Rule> rule = family->rule(call);
    const Result<OpCost> cost = rule ? family->cost(call, *rule) : Result<OpCost>(rule.error());
    return known->second = !cost || !cost->alias;
  }

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

  Program& program_;
  const OpTable& ops_;
  std::vector<Gradient> gradients_;  // by parameter
  std::map<std::string, bool> takes_time_;  // by op
};

// Names are unique in a program; the copies made above share their origin's.
void number_copies(Program& program, std::size_t first) {
  std::map<std::string, int> copies;
  for (std::size_t i = 0; i < first; ++i) copies.emplace(program.values[i].name, 0);
  for (std::size_t i = first; i < program.values.size(); ++i) {
    std::string& name = program.values[i].name;
    const std::string base = name;
    while (!copies.emplace(name, 0).second) name = base + "'" + std::to_string(++copies[base]);
  }
}

class ParameterShard final : public ProgramPass {
  [[nodiscard]] bool alters_backward() const override { return false; }

  Result<Program> do_run(Program program, const PlanningContext& context) const override {
    const std::size_t before = program.values.size();
    Joiner(program, context.ops).run();
    number_copies(program, before);
    return program;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "parameter_shard", "0.2.0", "Apache-2.0",
                  "Gathers stored parameters, adds up and reduces their gradients, updates them", nullptr, nullptr, 0,
                  (create_plugin<ProgramPass, ParameterShard>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
