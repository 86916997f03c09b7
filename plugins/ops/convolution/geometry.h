// Which elements of a convolution's tensors meet. Private to the family.
//
// The gradients are ops of our own, one for each operand, so that what one of them reads is saved for it alone; ATen's
// aten.convolution_backward gives all three at once. Their attributes are those of the forward:
//   meshwright.convolution_backward_input(grad_output, weight)
//   meshwright.convolution_backward_weight(grad_output, input)
// The bias' gradient is aten.sum.dim_IntList.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kInputGradient = "meshwright.convolution_backward_input";
inline constexpr const char* kWeightGradient = "meshwright.convolution_backward_weight";

inline constexpr const char* kBackward = "aten.convolution_backward";

// A transposed convolution is what gives another one's input its gradient: its result stands where that one's input does.
inline bool is_transposed(const Node& node) {
  return node.boolean("transposed", false) || node.op.starts_with("aten.conv_transpose");
}

// The types of a convolution's tensors, or of those that its gradients stand for.
struct ConvolutionTypes {
  const TensorType& input;
  const TensorType& weight;
  const TensorType& output;
};

ConvolutionTypes convolution_types(const OpCall& call);

// Positions in one channel: all dimensions but the first two.
std::int64_t space_elements(const TensorType& type);

// Positions that meet, within one channel of each tensor: output[y] takes input[x] times kernel[k].
struct Tap {
  std::size_t y, x, k;
};

// By output position, then kernel position.
std::vector<Tap> find_taps(const Node& node, const ConvolutionTypes& types);

}  // namespace meshwright
