// Inserts communication: every `convert` becomes the moves of its conversion's path, which the run's conversion search
// finds, as it did when the plan was priced.
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class Communication final : public ProgramPass {
 private:
  Result<Program> do_run(Program program, const PassContext& context) const override {
    std::vector<Instruction> instructions;
    for (Instruction& instruction : program.instructions) {
      if (instruction.kind != InstructionKind::convert) {
        instructions.push_back(std::move(instruction));
        continue;
      }
      if (Status status = insert_moves(instruction, context, program, instructions); !status) return status.error();
    }
    program.instructions = std::move(instructions);
    return program;
  }

  static Status insert_moves(const Instruction& convert, const PassContext& context, Program& program,
                             std::vector<Instruction>& instructions) {
    const ShardedType from = program.type(convert.operands[0].value);
    const ProgramValue result = program.values[convert.results[0]];
    const ConversionProblem problem{program.mesh, from.atoms, context.profile, size_bytes(from.type.dtype), convert.hides};
    Result<ConversionPath> path = context.conversions.find(problem, from.layout, result.type.layout);
    if (!path) return add_context("'" + result.name + "'", path.error());
    ProgramValueId here = convert.operands[0].value;
    for (std::size_t i = 0; i < path->moves.size(); ++i) {
      const Move& move = path->moves[i];
      ProgramValueId next = convert.results[0];
      if (i + 1 < path->moves.size()) {
        next = static_cast<ProgramValueId>(program.values.size());
        program.values.push_back({result.name + "~" + std::to_string(i + 1), {from.type, from.atoms, move.result}});
      }
      Instruction& made = instructions.emplace_back(convert);
      made.kind = InstructionKind::move;
      made.move = move;
      made.operands = {{"", here, program.type(here).layout}};
      made.results = {next};
      here = next;
    }
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "communication", "0.1.0", "Apache-2.0", "Conversions become collectives", nullptr, nullptr, 0,
                  (create_plugin<ProgramPass, Communication>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
