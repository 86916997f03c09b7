#include "geometry.h"

#include "numbers.h"

namespace meshwright {

ConvolutionTypes convolution_types(const OpCall& call) {
  if (call.node.op == kInputGradient) return {call.results[0], call.operands[1], call.operands[0]};
  if (call.node.op == kWeightGradient) return {call.operands[1], call.results[0], call.operands[0]};
  if (call.node.op == kBackward) return {call.operands[1], call.operands[2], call.operands[0]};
  if (is_transposed(call.node)) return {call.results[0], call.operands[1], call.operands[0]};
  return {call.operands[0], call.operands[1], call.results[0]};
}

std::int64_t space_elements(const TensorType& type) {
  std::int64_t count = 1;
  for (std::size_t i = 2; i < type.shape.size(); ++i) count *= type.shape[i];
  return count;
}

namespace {

// One number for each dimension of space; a list of one stands for all.
std::vector<std::int64_t> spread(std::vector<std::int64_t> list, std::size_t space, std::int64_t otherwise) {
  if (list.empty()) list.push_back(otherwise);
  if (list.size() == 1) list.assign(space, list[0]);
  return list;
}

}  // namespace

std::vector<Tap> find_taps(const Node& node, const ConvolutionTypes& types) {
  const std::size_t space = types.input.shape.size() - 2;
  const std::vector<std::int64_t> stride = spread(node.integers("stride"), space, 1);
  const std::vector<std::int64_t> dilation = spread(node.integers("dilation"), space, 1);
  std::vector<std::int64_t> padding = spread(node.integers("padding"), space, 0);
  for (std::size_t d = 0; d < space && node.text("padding", "valid") == "same"; ++d) {
    padding[d] = dilation[d] * (types.weight.shape[d + 2] - 1) / 2;  // an odd one goes behind
  }
  const std::vector<std::int64_t> y_strides = strides_of({types.output.shape.begin() + 2, types.output.shape.end()});
  const std::vector<std::int64_t> k_strides = strides_of({types.weight.shape.begin() + 2, types.weight.shape.end()});
  std::vector<Tap> taps;
  for (std::int64_t y = 0; y < space_elements(types.output); ++y) {
    for (std::int64_t k = 0; k < space_elements(types.weight); ++k) {
      std::int64_t x = 0, y_rest = y, k_rest = k;
      bool inside = true;
      for (std::size_t d = 0; d < space; ++d) {
        const std::int64_t at = y_rest / y_strides[d] * stride[d] - padding[d] + k_rest / k_strides[d] * dilation[d];
        inside &= at >= 0 && at < types.input.shape[d + 2];
        x = x * types.input.shape[d + 2] + at;
        y_rest %= y_strides[d];
        k_rest %= k_strides[d];
      }
      if (inside) taps.push_back({to_size(y), to_size(x), to_size(k)});
    }
  }
  return taps;
}

}  // namespace meshwright
