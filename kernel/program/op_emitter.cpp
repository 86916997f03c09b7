#include "meshwright/op_emitter.h"

#include <algorithm>

#include "tensor/guarded.h"

namespace meshwright {

OpEmitter::~OpEmitter() = default;
EmitterTable::~EmitterTable() = default;

const EmitterOperand* EmitterCall::operand(std::string_view operand_name) const {
  const auto found = std::ranges::find(operands, operand_name, &EmitterOperand::name);
  return found == operands.end() ? nullptr : &*found;
}

Node EmitterCall::node() const {
  Node node;
  node.name = name;
  node.op = op;
  node.attributes = attributes;
  return node;
}

Result<EmittedOp> OpEmitter::emit(const EmitterCall& call) const {
  const std::string where = call.op + " at '" + call.name + "'";
  return guarded([&] { return where + ": the emitter"; },
                 [&]() -> Result<EmittedOp> {
                   Result<EmittedOp> emitted = do_emit(call);
                   if (!emitted) return add_context(where, emitted.error());
                   if (emitted->text.find_first_of("\r\n") != std::string::npos)
                     return plugin_failed(where + ": the emitter's expression has several lines");
                   return emitted;
                 });
}

}  // namespace meshwright
