// Which storages a rank holds while a program runs, and how many bytes they are. Private to the kernel.
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

// Goes through the shortened step of a program. `held` is what is held, as the caller counts it: `held.change(owner, +1 or -1)`, and
// `held.repeat(repetitions, before)` where so many were left out that change it as the one since `before` did. `on_event` is told of each
// event before it begins, `on_point` of each occurrence when it is done, and says whether to go on.
template <class Held, class OnEvent, class OnPoint>
void walk(const Program& program, const ShortenedOrder& order, Held& held, const OnEvent& on_event, const OnPoint& on_point) {
  HeldStorages storages(program, order.microbatches);
  const auto on = [&held](ProgramValueId owner, int change, std::size_t) { held.change(owner, change); };
  storages.begin(on);
  Held before = held;
  for (std::size_t e = 0; e < order.events.size(); ++e) {
    for (const ShortenedOrder::Gap& gap : order.gaps) {
      if (e == gap.event) held.repeat(gap.repetitions, before);
      if (e + gap.period == gap.event) before = held;
    }
    on_event(e);
    for (const Occurrence& here : occurrences(program, {order.events[e]}, order.microbatches)) {
      storages.run(program.instructions[here.instruction], here.microbatch, on);
      if (!on_point(Occurrence{here.instruction, order.microbatch_at(e)})) return;
    }
  }
}

// What is held at most behind each instruction, and at any time: the bytes of memory_profile alone.
struct HeldBytes {
  std::vector<std::int64_t> at_most;  // by instruction
  std::int64_t peak = 0;
};
HeldBytes held_bytes(const Program& program);

}  // namespace meshwright
