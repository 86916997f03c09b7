// PyTorch's formulas (derivatives.yaml): what was read is added to zeros where it stood, and what was added is read.
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

ValueId read(const GradientCall& call, const TensorType& added) {
  auto [operands, attributes] = positions_of(call.node);
  operands.insert(operands.begin(), {"self", call.result_gradients[0]});
  const bool index = is_index(call.node), gather = is_gather(call.node);
  const ValueId picked = call.build.emit(index    ? "aten.index.Tensor"
                                         : gather ? "aten.gather"
                                                  : "aten.index_select",
                                         operands, std::move(attributes), added);
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
  if (call.wanted[0]) gradients[0] = call.result_gradients[0];
  if (call.wanted.back()) gradients.back() = read(call, type(gradients.size() - 1));
  return gradients;
}

}  // namespace meshwright
