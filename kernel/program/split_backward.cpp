#include "program/split_backward.h"

#include <algorithm>
#include <vector>

namespace meshwright {

void split_backward(Program& program) {
  std::vector<bool> awaited(program.values.size(), false);  // going backward: what is sent is made of it
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    if (instruction.phase != Phase::backward) continue;
    const bool first = instruction.message() != nullptr || std::ranges::any_of(instruction.results, [&](ProgramValueId result) { return awaited[result]; });
    instruction.phase = first ? Phase::input_gradient : Phase::weight_gradient;
    if (!first) continue;
    for (const ProgramOperand& operand : instruction.operands) awaited[operand.value] = true;
  }
  std::ranges::stable_sort(program.instructions, {}, &Instruction::phase);
}

}  // namespace meshwright
