// Turns computing on whole shapes into what one rank executes: sizes and offsets in attributes become local (MAP §6.1,
// the conversion of reshape nodes), and families rewrite what their rule alone does not make right (DESIGN §2).
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"
#include "meshwright/program_pass.h"

namespace meshwright {
namespace {

class Reshape final : public ProgramPass {
 private:
  [[nodiscard]] bool alters_backward() const override { return false; }

  Result<Program> do_run(Program program, const PlanningContext& context) const override {
    std::vector<Instruction> instructions;
    instructions.reserve(program.instructions.size() + program.instructions.size() / 4);
    for (Instruction& instruction : program.instructions) {
      Compute* compute = instruction.compute();
      const OpFamily* family = compute != nullptr && !compute->local ? context.ops.find(compute->op) : nullptr;
      if (family == nullptr) {
        if (compute != nullptr) compute->local = true;  // an op that nobody knows runs replicated, on whole shapes
        instructions.push_back(std::move(instruction));
        continue;
      }
      if (Status status = localize(*family, instruction, program, instructions); !status) return status.error();
    }
    program.instructions = std::move(instructions);
    return program;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("passes", "reshape", "0.1.0", "Apache-2.0", "Local shapes, offsets and rewrites for one rank", nullptr,
                  nullptr, 0, (create_plugin<ProgramPass, Reshape>), destroy_plugin<ProgramPass>)

}  // namespace meshwright
