// Joins the computing to the parameters as they are stored: a parameter that is computed with in another layout is
// gathered before its first use (ZeRO-3, FSDP), its gradient is reduced to where the parameter lies as soon as it is
// whole, and the optimizer's steps stand at the end.
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class ParameterShard final : public ProgramPass {
 private:
  Result<Program> do_run(Program program, const PassContext&) const override {
    std::vector<ProgramValueId> stands_for(program.values.size());
    for (ProgramValueId id = 0; id < stands_for.size(); ++id) stands_for[id] = id;
    std::vector<Instruction> instructions;
    for (Instruction& instruction : program.instructions) {
      for (ProgramOperand& operand : instruction.operands) operand.value = stands_for[operand.value];
      if (instruction.kind == InstructionKind::load_parameter) {
        load(program, instruction, stands_for, instructions);
      } else if (instruction.kind == InstructionKind::store_gradient) {
        store(program, instruction, instructions);
      } else {
        instructions.push_back(std::move(instruction));
      }
    }
    for (ProgramOutput& output : program.outputs) output.value = stands_for[output.value];
    for (std::uint32_t i = 0; i < program.parameters.size(); ++i) {
      const ProgramParameter& parameter = program.parameters[i];
      if (parameter.gradient == kNoId) continue;
      Instruction& update = instructions.emplace_back();
      update.kind = InstructionKind::update;
      update.phase = Phase::update;
      update.name = parameter.name;
      update.parameter = i;
      update.operands.push_back({"", parameter.gradient, program.type(parameter.gradient).layout});
    }
    program.instructions = std::move(instructions);
    return program;
  }

  static void load(const Program& program, const Instruction& load, std::vector<ProgramValueId>& stands_for,
                   std::vector<Instruction>& instructions) {
    const ProgramValueId stored = program.parameters[load.parameter].value;
    const ProgramValueId wanted = load.results[0];
    if (program.type(stored).layout == program.type(wanted).layout) {
      stands_for[wanted] = stored;
      return;
    }
    instructions.push_back(conversion(program, load, stored, wanted));
  }

  static void store(Program& program, const Instruction& store, std::vector<Instruction>& instructions) {
    ProgramParameter& parameter = program.parameters[store.parameter];
    const ProgramValueId gradient = store.operands[0].value;
    const ShardedType stored = program.type(parameter.value);
    parameter.gradient = gradient;
    if (program.type(gradient).layout == stored.layout) return;
    parameter.gradient = static_cast<ProgramValueId>(program.values.size());
    program.values.push_back({"gradient of " + parameter.name, stored});
    instructions.push_back(conversion(program, store, gradient, parameter.gradient));
  }

  static Instruction conversion(const Program& program, const Instruction& original, ProgramValueId from, ProgramValueId to) {
    Instruction convert = original;
    convert.kind = InstructionKind::convert;
    convert.operands = {{"", from, program.type(from).layout}};
    convert.results = {to};
    convert.hides = true;
    return convert;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "parameter_shard", "0.1.0", "Apache-2.0",
                  "Gathers stored parameters, reduces their gradients, updates them", nullptr, nullptr, 0,
                  (create_plugin<ProgramPass, ParameterShard>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
