// Inserts communication: every `convert` becomes the moves of its conversion's path, which the run's conversion search
// finds, as it did when the plan was priced.
#include <map>
#include <tuple>

#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

// The paths of a program, each searched once: layers convert alike.
class Paths {
 public:
  Paths(const Mesh& mesh, const PassContext& context) : mesh_(mesh), context_(context) {}

  // The pointer stays valid.
  Result<const ConversionPath*> find(const ShardedType& from, const Layout& to, bool packed) {
    const std::int64_t element_bytes = size_bytes(from.type.dtype);
    const auto [found, inserted] =
        known_.try_emplace({from.atoms.sizes, from.atoms.paddable, element_bytes, packed, from.layout, to});
    if (inserted) {
      const ConversionProblem problem{mesh_, from.atoms, context_.profile, element_bytes, packed};
      Result<ConversionPath> path = context_.conversions.find(problem, from.layout, to);
      if (!path) return path.error();
      found->second = std::move(*path);
    }
    return &found->second;
  }

 private:
  using Sizes = decltype(AtomShape::sizes);
  using Paddable = decltype(AtomShape::paddable);

  const Mesh& mesh_;
  const PassContext& context_;
  std::map<std::tuple<Sizes, Paddable, std::int64_t, bool, Layout, Layout>, ConversionPath> known_;
};

class Communication final : public ProgramPass {
 private:
  Result<Program> do_run(Program program, const PassContext& context) const override {
    Paths paths(program.mesh, context);
    std::vector<Instruction> instructions;
    for (Instruction& instruction : program.instructions) {
      if (instruction.kind != InstructionKind::convert) {
        instructions.push_back(std::move(instruction));
        continue;
      }
      if (Status status = insert_moves(instruction, paths, program, instructions); !status) return status.error();
    }
    program.instructions = std::move(instructions);
    return program;
  }

  static Status insert_moves(const Instruction& convert, Paths& paths, Program& program, std::vector<Instruction>& instructions) {
    const ShardedType from = program.type(convert.operands[0].value);
    const ProgramValue result = program.values[convert.results[0]];
    const Result<const ConversionPath*> found = paths.find(from, result.type.layout, convert.hides);
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
