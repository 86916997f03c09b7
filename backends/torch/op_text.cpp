#include "op_text.h"

#include <algorithm>

#include "call_text.h"

namespace meshwright::torch {

namespace {

EmitterStep step_of(const Instruction& step, const Program& program) {
  EmitterStep made;
  if (step.kind == InstructionKind::move)
    made.axis = step.move.axis;
  else
    made.op = step.op;
  made.attributes = step.attributes;
  made.rank_attributes = step.rank_attributes;
  for (const ProgramValueId result : step.results) made.results.push_back(program.type(result));
  return made;
}

EmitterCall call_of(const Instruction& call, const std::vector<Instruction>& steps, const Program& program,
                    const ValueText& value) {
  EmitterCall made{program.mesh, call.name, call.node, call.op, {}, {}, call.attributes, call.rank_attributes, {}};
  for (const ProgramOperand& operand : call.operands)
    made.operands.push_back({operand.name, value(operand.value), program.type(operand.value)});
  for (const ProgramValueId result : call.results) made.results.push_back(program.type(result));
  for (const Instruction& step : steps) made.steps.push_back(step_of(step, program));
  return made;
}

const OpEmitter* find(const EmitterTable* emitters, const std::string& op) {
  return emitters != nullptr ? emitters->find(op) : nullptr;
}

bool is_of_pytorch(const std::string& op) { return op.starts_with("aten."); }

}  // namespace

Result<EmittedOp> op_text(const Instruction& call, const std::vector<Instruction>& steps, const Program& program,
                          const ValueText& value, const EmitterTable* emitters) {
  const auto refused = [&](const std::string& why) {
    return bad_input("node '" + call.name + "' (" + call.op + ") can't be written as PyTorch: " + why);
  };
  const EmitterCall asked = call_of(call, steps, program, value);
  const OpEmitter* emitter = find(emitters, call.op);
  if (emitter != nullptr) {
    Result<EmittedOp> emitted = emitter->emit(asked);
    if (!emitted || !emitted->text.empty()) return emitted;
  }
  const std::string who = emitter != nullptr ? "its emitter does not say how"
                                             : "no plugin serves torch:" + call.op + " (docs/add-an-op.md)";
  if (!steps.empty()) return refused("sharded as planned it takes several steps, and " + who);
  if (!call.rank_attributes.empty()) return refused("its result depends on which part a rank has, and " + who);
  if (call.op.starts_with("meshwright.") || call.op.find('.') == std::string::npos)
    return refused("PyTorch has no such op, and " + who);
  return EmittedOp{.text = CallText(asked).by_schema()};
}

bool are_plain(const std::vector<Instruction>& steps, const EmitterTable* emitters) {
  return std::all_of(steps.begin(), steps.end(), [&](const Instruction& step) {
    return step.kind == InstructionKind::compute && (is_of_pytorch(step.op) || find(emitters, step.op) != nullptr);
  });
}

}  // namespace meshwright::torch
