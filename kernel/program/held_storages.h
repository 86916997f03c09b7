// Which storages a rank holds while a program runs. Private to the kernel.
#pragma once

#include <vector>

#include "meshwright/program.h"

namespace meshwright {

class HeldStorages {
 public:
  // `microbatches`: of the step that runs, which may be a shortened one.
  HeldStorages(const Program& program, std::int64_t microbatches)
      : program_(program), microbatches_(microbatches), owners_(storages(program)), sharing_(program.values.size() * static_cast<std::size_t>(microbatches), 0) {}

  // What is there from the start. `on(owner, +1, place)`: this storage, which stands at this place (Program::place), is held from now
  // on; -1: it is not any more.
  template <class On>
  void begin(const On& on) {
    for (const ProgramParameter& parameter : program_.parameters) take(parameter.value, 0, on);
    for (const ProgramInput& input : program_.inputs) {
      if (input.microbatch < microbatches_) take(input.value, input.microbatch, on);
    }
  }

  template <class On>
  void run(const Instruction& instruction, std::int64_t microbatch, const On& on) {
    if (instruction.kind() == InstructionKind::free) {
      for (const ProgramOperand& operand : instruction.operands) release(operand.value, microbatch, on);
    } else if (instruction.in_place()) {
      return;
    } else if (instruction.takes_over()) {
      release(instruction.operands[0].value, instruction.operands_from(microbatch), on);
    }
    for (const ProgramValueId result : instruction.results) take(result, microbatch, on);
  }

 private:
  template <class On>
  void take(ProgramValueId value, std::int64_t microbatch, const On& on) {
    const std::size_t place = program_.place(owners_[value], microbatch);
    if (sharing_[place]++ == 0) on(owners_[value], 1, place);
  }

  template <class On>
  void release(ProgramValueId value, std::int64_t microbatch, const On& on) {
    const std::size_t place = program_.place(owners_[value], microbatch);
    if (--sharing_[place] == 0) on(owners_[value], -1, place);
  }

  const Program& program_;
  const std::int64_t microbatches_;
  const std::vector<ProgramValueId> owners_;
  std::vector<std::int32_t> sharing_;  // by owner and microbatch: values of this storage that are there
};

}  // namespace meshwright
