#include "meshwright/timeline.h"

#include <algorithm>

#include "meshwright/call_price.h"

namespace meshwright {

namespace {

double compute_op_seconds(const Program& program, const Instruction& instruction, const OpTable& ops, const CostProfile& profile) {
  const Node node = node_of(instruction, std::vector<std::int64_t>(program.mesh.rank(), 0));
  std::vector<const ShardedType*> operands, results;
  for (const ProgramOperand& operand : instruction.operands) operands.push_back(&program.type(operand.value));
  for (const ProgramValueId result : instruction.results) results.push_back(&program.type(result));
  return call_seconds(profile, ops, program.mesh, node, operands, results);
}

class Drawing {
 public:
  explicit Drawing(const Program& program) : program_(program), ready_(program.values.size(), 0) {}

  Timeline run(const std::vector<Ticks>& ticks) {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) add(program_.instructions[i], ticks[i]);
    const Ticks end = std::max(computing_, communicating_);
    waits_at_end_ += end - computing_;
    timeline_.step_seconds = to_seconds(end);
    timeline_.parameter_seconds = to_seconds(parameters_);
    timeline_.waits_for_gathers = to_seconds(waits_for_gathers_);
    timeline_.waits_at_end = to_seconds(waits_at_end_);
    return std::move(timeline_);
  }

 private:
  void add(const Instruction& instruction, Ticks ticks) {
    Span span{Stream::compute, computing_, ticks};
    if (instruction.kind != InstructionKind::free) {
      const bool may_hide = instruction.kind == InstructionKind::move || instruction.kind == InstructionKind::accumulate;
      const bool beside = may_hide && instruction.hides;
      if (beside) span = {Stream::parameters, std::max(communicating_, computing_), ticks};
      for (const ProgramOperand& operand : instruction.operands) span.start = std::max(span.start, ready_[operand.value]);
      if (beside) parameters_ += ticks;
      else (instruction.phase == Phase::update ? waits_at_end_ : waits_for_gathers_) += span.start - computing_;
      (beside ? communicating_ : computing_) = span.end();
      for (const ProgramValueId result : instruction.results) ready_[result] = span.end();
    }
    timeline_.spans.push_back(span);
  }

  const Program& program_;
  std::vector<Ticks> ready_;                  // when a value is there
  Ticks computing_ = 0, communicating_ = 0;   // when each stream is free
  Ticks parameters_ = 0, waits_for_gathers_ = 0, waits_at_end_ = 0;
  Timeline timeline_;
};

}  // namespace

Result<Ticks> instruction_ticks(const Program& program, const Instruction& instruction, const OpTable& ops, const CostProfile& profile) {
  switch (instruction.kind) {
    case InstructionKind::compute:
      return to_ticks(compute_op_seconds(program, instruction, ops, profile));
    case InstructionKind::move: {
      const ShardedType& from = program.type(instruction.operands[0].value);
      const ConversionProblem problem{program.mesh, from.atoms, profile, size_bytes(from.type.dtype), instruction.hides};
      return to_ticks(move_seconds(problem, from.layout, instruction.move));
    }
    case InstructionKind::accumulate:
      return to_ticks(accumulate_seconds(profile, program.local_bytes(instruction.results[0])));
    case InstructionKind::update: {
      const ProgramParameter& parameter = program.parameters[instruction.parameter];
      const DType dtype = program.type(parameter.value).type.dtype;
      return to_ticks(update_seconds(profile, program.local(parameter.gradient).elements(), program.training.step_bytes(dtype), dtype));
    }
    case InstructionKind::free:
      return Ticks{0};
    case InstructionKind::convert:
    case InstructionKind::load_parameter:
    case InstructionKind::store_gradient:
      break;
  }
  return bad_input("the program is not finished at '" + instruction.name + "'; run all passes before it");
}

Result<Timeline> make_timeline(const Program& program, const OpTable& ops, const CostProfile& profile) {
  std::vector<Ticks> ticks;
  for (const Instruction& instruction : program.instructions) {
    Result<Ticks> one = instruction_ticks(program, instruction, ops, profile);
    if (!one) return one.error();
    ticks.push_back(*one);
  }
  return Drawing(program).run(ticks);
}

}  // namespace meshwright
