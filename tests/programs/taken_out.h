// A finished program with an instruction taken out.
#pragma once

#include <cstddef>
#include <vector>

#include "program_bench.h"

namespace meshwright::test {

inline bool is_move(const Instruction& here, MoveKind kind) { return here.move() != nullptr && here.move()->kind == kind; }

// Without instruction `number`, whose users take its first operand.
inline void take_out(Program& program, std::size_t number) {
  const ProgramValueId before = program.instructions[number].operands[0].value, result = program.instructions[number].results[0];
  program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(number));
  std::erase_if(program.instructions, [](const Instruction& here) { return here.kind() == InstructionKind::free; });
  const auto replace = [&](ProgramValueId& value) {
    if (value == result) value = before;
  };
  for (Instruction& here : program.instructions) {
    for (ProgramOperand& operand : here.operands) replace(operand.value);
  }
  for (ProgramParameter& parameter : program.parameters) {
    replace(parameter.gradient);
    replace(parameter.updated);
  }
  for (ProgramOutput& output : program.outputs) replace(output.value);
  place_frees(program);
}

}  // namespace meshwright::test
