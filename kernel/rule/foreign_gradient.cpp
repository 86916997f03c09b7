#include "rule/foreign_gradient.h"

namespace meshwright {

std::vector<ValueId> foreign_gradient(const GradientCall& call) {
  std::vector<Operand> operands = call.node.operands;
  for (std::size_t i = 0; i < call.result_gradients.size(); ++i) {
    operands.push_back({"gradient." + std::to_string(i), call.result_gradients[i]});
  }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < call.wanted.size(); ++i) {
    if (call.wanted[i]) types.push_back(call.type(call.node.operands[i].value));
  }
  const std::vector<ValueId> made = call.build.emit(kForeignGradient, operands, {{"op", call.node.op}}, types);
  std::vector<ValueId> gradients(call.wanted.size(), kNoId);
  for (std::size_t i = 0, next = 0; i < gradients.size(); ++i) {
    if (call.wanted[i]) gradients[i] = made[next++];
  }
  return gradients;
}

bool states_gradient(const OpFamily& family, const OpCall& call, const std::vector<bool>& wanted) {
  Graph scratch;
  const auto add = [&](const TensorType& type) {
    scratch.values.push_back({"", type, kNoId, false});
    return static_cast<ValueId>(scratch.values.size() - 1);
  };
  Node node = call.node;
  for (std::size_t i = 0; i < node.operands.size(); ++i) node.operands[i].value = add(call.operands[i]);
  std::vector<ValueId> gradients;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    node.results[i] = add(call.results[i]);
    gradients.push_back(is_floating(call.results[i].dtype) ? add(call.results[i]) : kNoId);
  }
  GraphBuilder build(scratch, "");
  const Result<std::vector<ValueId>> stated = family.gradient({node, gradients, wanted, build});
  return stated || stated.error().code != ErrorCode::bad_input;
}

}  // namespace meshwright
