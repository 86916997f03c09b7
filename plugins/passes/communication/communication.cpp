// Inserts communication: every `convert` becomes the moves of its conversion's path, which the run's conversion search
// finds, as it did when the plan was priced.
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class Communication final : public ProgramPass {
 private:
  Result<Program> do_run(Program program, const PlanningContext& context) const override {
    ConversionPaths paths(context.conversions);
    std::vector<Instruction> instructions;
    for (Instruction& instruction : program.instructions) {
      if (instruction.kind != InstructionKind::convert) {
        instructions.push_back(std::move(instruction));
        continue;
      }
      if (Status status = insert_moves(instruction, context, paths, program, instructions); !status) return status.error();
    }
    program.instructions = std::move(instructions);
    return program;
  }

  static Status insert_moves(const Instruction& convert, const PlanningContext& context, ConversionPaths& paths, Program& program,
                             std::vector<Instruction>& instructions) {
    const ShardedType from = program.type(convert.operands[0].value);
    const ProgramValue result = program.values[convert.results[0]];
    const ConversionProblem problem{program.mesh, from.atoms, context.profile, size_bytes(from.type.dtype), convert.hides};
    const Result<const ConversionPath*> found = paths.find(problem, from.layout, result.type.layout);
    if (!found) return add_context("'" + result.name + "'", found.error());
    const std::vector<Move>& moves = (*found)->moves;
    ProgramValueId here = convert.operands[0].value;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const Move& move = moves[i];
      ProgramValueId next = convert.results[0];
      if (i + 1 < moves.size()) {
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
