// Inserts communication: every `convert` becomes the moves that its plan says.
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class Communication final : public ProgramPass {
 private:
  [[nodiscard]] bool alters_backward() const override { return false; }

  Result<Program> do_run(Program program, const PlanningContext&) const override {
    std::vector<Instruction> instructions;
    instructions.reserve(program.instructions.size() + program.instructions.size() / 4);
    for (Instruction& instruction : program.instructions) {
      if (instruction.kind() != InstructionKind::convert) {
        instructions.push_back(std::move(instruction));
        continue;
      }
      insert_moves(instruction, program, instructions);
    }
    program.instructions = std::move(instructions);
    return program;
  }

  static void insert_moves(const Instruction& convert, Program& program, std::vector<Instruction>& instructions) {
    const ShardedType from = program.type(convert.operands[0].value);
    const std::string name = program.values[convert.results[0]].name;
    const PlannedPath& path = std::get<Convert>(convert.action).path;
    const std::vector<Move>& moves = path.moves;
    ProgramValueId here = convert.operands[0].value;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const Move& move = moves[i];
      ProgramValueId next = convert.results[0];
      if (i + 1 < moves.size()) {
        next = static_cast<ProgramValueId>(program.values.size());
        program.values.push_back({name + "~" + std::to_string(i + 1), {from.type, from.atoms, move.result}});
      }
      Instruction& made = instructions.emplace_back(convert);
      made.action = MoveStep{move, path.conversion};
      made.operands = {{"", here, program.type(here).layout}};
      made.results = {next};
      here = next;
    }
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "communication", "0.1.0", "Apache-2.0", "Conversions become collectives", nullptr, nullptr, 0,
                  (create_plugin<ProgramPass, Communication>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
