#include "timeline.h"

#include <algorithm>

#include "price.h"

namespace meshwright {

Result<Timeline> make_timeline(const BackendInput& input) {
  const Program& program = input.program;
  Timeline timeline;
  std::vector<double> ready(program.values.size(), 0);  // when a value is there
  double computing = 0, communicating = 0;              // when each stream is free
  for (const Instruction& instruction : program.instructions) {
    const Result<double> seconds = seconds_of(input, instruction);
    if (!seconds) return seconds.error();
    Span span;
    span.seconds = *seconds;
    if (instruction.kind == InstructionKind::free) {
      span.start_seconds = computing;
      timeline.spans.push_back(span);
      continue;
    }
    const bool may_hide = instruction.kind == InstructionKind::move || instruction.kind == InstructionKind::accumulate;
    const bool beside = may_hide && instruction.hides;
    span.stream = beside ? Stream::parameters : Stream::compute;
    span.start_seconds = beside ? std::max(communicating, computing) : computing;
    for (const ProgramOperand& operand : instruction.operands) {
      span.start_seconds = std::max(span.start_seconds, ready[operand.value]);
    }
    (beside ? communicating : computing) = span.end();
    for (const ProgramValueId result : instruction.results) ready[result] = span.end();
    timeline.step_seconds = std::max(timeline.step_seconds, span.end());
    timeline.spans.push_back(span);
  }
  return timeline;
}

std::string title(const Instruction& instruction) {
  if (instruction.kind == InstructionKind::compute) return instruction.op;
  if (instruction.kind != InstructionKind::move) return name(instruction.kind);
  return std::string(name(instruction.move.kind)) + " " + std::to_string(instruction.move.axis);
}

}  // namespace meshwright
