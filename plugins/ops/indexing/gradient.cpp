// PyTorch's formulas (derivatives.yaml): what was read is added to zeros where it stood, and what was added is read.
#include "broadcast.h"
#include "indexing.h"

namespace meshwright {

namespace {

// The op's positions and where they count, for another op of its pair.
struct Positions {
  std::vector<Operand> operands;
  Attributes attributes;
};

Positions positions_of(const Node& node) {
  Positions positions;
  for (std::size_t i = 1; i <= position_operands(node); ++i) positions.operands.push_back(node.operands[i]);
  if (!is_index(node)) positions.attributes["dim"] = node.integer("dim", 0);
  return positions;
}

ValueId add_to_zeros(const GradientCall& call, const TensorType& table) {
  const ValueId zeros = call.build.emit("aten.zeros", {}, {{"size", table.shape}}, table);
  auto [operands, attributes] = positions_of(call.node);
  operands.insert(operands.begin(), {"self", zeros});
  const bool index = is_index(call.node), gather = is_gather(call.node);
  operands.push_back({index ? "values" : gather ? "src" : "source", call.result_gradients[0]});
  if (index) attributes["accumulate"] = true;
  return call.build.emit(index    ? "aten.index_put"
                         : gather ? "aten.scatter_add"
                                  : "aten.index_add",
                         operands, std::move(attributes), table);
}

// Zeros where the table was written over.
ValueId cleared(const GradientCall& call) {
  auto [operands, attributes] = positions_of(call.node);
  const ValueId gradient = call.result_gradients[0];
  operands.insert(operands.begin(), {"self", gradient});
  operands.push_back({"values", call.build.emit("aten.zeros", {}, {}, TensorType{call.type(gradient).dtype, {}})});
  attributes["accumulate"] = false;
  return call.build.emit("aten.index_put", operands, std::move(attributes), call.type(gradient));
}

ValueId read(const GradientCall& call, const TensorType& added) {
  auto [operands, attributes] = positions_of(call.node);
  operands.insert(operands.begin(), {"self", call.result_gradients[0]});
  const bool index = is_index(call.node), gather = is_gather(call.node);
  OpCall forward{call.node, {}, {}};
  for (const Operand& operand : call.node.operands) forward.operands.push_back(call.type(operand.value));
  const TensorType picked_type{added.dtype, picked_shape(forward)};
  const ValueId picked = call.build.emit(index    ? "aten.index.Tensor"
                                         : gather ? "aten.gather"
                                                  : "aten.index_select",
                                         operands, std::move(attributes), picked_type);
  if (index) return sum_to(call.build, picked, added);
  const double alpha = call.node.number("alpha", 1);
  if (alpha == 1) return picked;
  return call.build.emit("aten.mul.Scalar", {{"self", picked}}, {{"other", alpha}}, added);
}

}  // namespace

Result<std::vector<ValueId>> indexing_gradient(const GradientCall& call) {
  std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
  const auto type = [&](std::size_t operand) { return call.type(call.node.operands[operand].value); };
  if (!adds(call.node)) {
    if (call.wanted[0]) gradients[0] = add_to_zeros(call, type(0));
    return gradients;
  }
  if (call.wanted[0]) gradients[0] = overwrites(call.node) ? cleared(call) : call.result_gradients[0];
  if (call.wanted.back()) gradients.back() = read(call, type(gradients.size() - 1));
  return gradients;
}

}  // namespace meshwright
