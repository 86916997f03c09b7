#include "op_text.h"

#include <algorithm>

#include "call_text.h"
#include "python_text.h"

namespace meshwright::torch {

namespace {

// Attributes say what the model was exported with, and a model may have been retyped since (train.param_dtype): floating-point
// numbers are made in the type of the result.
Attributes typed(Attributes attributes, const std::vector<ShardedType>& results) {
  const auto said = attributes.find("dtype");
  if (said == attributes.end() || results.empty() || !is_floating(results[0].type.dtype)) return attributes;
  const auto* text = std::get_if<std::string>(&said->second);
  const std::optional<DType> exported = text != nullptr ? parse_dtype(*text) : std::nullopt;
  if (exported && is_floating(*exported)) said->second = std::string(name(results[0].type.dtype));
  return attributes;
}

// Whether the numbers that PyTorch makes of a call are of its default type, and the result is of a narrower one: nothing in
// the call says so.
bool is_untyped(const EmitterCall& call) {
  if (call.results.size() != 1) return false;
  const DType made = call.results[0].type.dtype;
  const auto said = call.attributes.find("dtype");
  const bool says = said != call.attributes.end() && std::holds_alternative<std::string>(said->second);
  const auto is_real = [](const EmitterOperand& operand) { return is_floating(operand.type.type.dtype); };
  return (made == DType::bfloat16 || made == DType::float16) && !says && std::ranges::none_of(call.operands, is_real);
}

std::string converted(const std::string& text, DType to) {
  int depth = 0;
  bool is_operation = text.starts_with('-') || text.starts_with('~');
  for (const char c : text) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    is_operation |= c == ' ' && depth == 0;
  }
  return (is_operation ? "(" + text + ")" : text) + ".to(" + dtype(to) + ")";
}

EmitterStep step_of(const Instruction& step, const Program& program) {
  EmitterStep made;
  for (const ProgramValueId result : step.results) made.results.push_back(program.type(result));
  if (const Move* move = step.move()) {
    for (std::size_t axis = 0; axis < program.mesh.rank(); ++axis) {
      if (move->goes_over(axis)) made.axes.push_back(axis);
    }
  }
  if (const Compute* compute = step.compute()) {
    made.op = compute->op;
    made.rank_attributes = compute->rank_attributes;
    made.attributes = typed(compute->attributes, made.results);
  }
  return made;
}

EmitterCall call_of(const Instruction& call, const std::vector<Instruction>& steps, const Program& program,
                    const ValueText& value) {
  const Compute& compute = std::get<Compute>(call.action);
  EmitterCall made{program.mesh, call.name, call.node, compute.op, {}, {}, {}, compute.rank_attributes, {}};
  for (const ProgramOperand& operand : call.operands)
    made.operands.push_back({operand.name, value(operand.value), program.type(operand.value)});
  for (const ProgramValueId result : call.results) made.results.push_back(program.type(result));
  made.attributes = typed(compute.attributes, made.results);
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
  const std::string& op = std::get<Compute>(call.action).op;
  const auto refused = [&](const std::string& why) {
    return bad_input("node '" + call.name + "' (" + op + ") can't be written as PyTorch: " + why);
  };
  const EmitterCall asked = call_of(call, steps, program, value);
  const OpEmitter* emitter = find(emitters, op);
  if (emitter != nullptr) {
    Result<EmittedOp> emitted = emitter->emit(asked);
    if (emitted && !emitted->text.empty() && is_untyped(asked)) emitted->text = converted(emitted->text, asked.results[0].type.dtype);
    if (!emitted || !emitted->text.empty()) return emitted;
  }
  const std::string who = emitter != nullptr ? "its emitter does not say how"
                                             : "no plugin serves torch:" + op + " (docs/add-an-op.md)";
  if (!steps.empty()) return refused("sharded as planned it takes several steps, and " + who);
  if (!asked.rank_attributes.empty()) return refused("its result depends on which part a rank has, and " + who);
  if (op.starts_with("meshwright.") || op.find('.') == std::string::npos)
    return refused("PyTorch has no such op, and " + who);
  const std::string text = CallText(asked).by_schema();
  return EmittedOp{.text = is_untyped(asked) ? converted(text, asked.results[0].type.dtype) : text};
}

bool are_plain(const std::vector<Instruction>& steps, const EmitterTable* emitters) {
  return std::all_of(steps.begin(), steps.end(), [&](const Instruction& step) {
    const Compute* compute = step.compute();
    return compute != nullptr && (is_of_pytorch(compute->op) || find(emitters, compute->op) != nullptr);
  });
}

}  // namespace meshwright::torch
