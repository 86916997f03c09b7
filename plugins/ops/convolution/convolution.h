// What convolutions compute, and their gradients. Private to the family.
//
// The gradients are ops of our own, one for each operand, so that what one of them reads is saved for it alone; ATen's
// aten.convolution_backward gives all three at once. Their attributes are those of the forward:
//   meshwright.convolution_backward_input(grad_output, weight)
//   meshwright.convolution_backward_weight(grad_output, input)
// The bias' gradient is aten.sum.dim_IntList.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kInputGradient = "meshwright.convolution_backward_input";
inline constexpr const char* kWeightGradient = "meshwright.convolution_backward_weight";

// The types of a convolution's tensors, or of those that its gradients stand for.
struct ConvolutionTypes {
  const TensorType& input;
  const TensorType& weight;
  const TensorType& output;
};

ConvolutionTypes convolution_types(const OpCall& call);

Result<std::vector<Tensor>> convolution_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> convolution_gradient(const GradientCall& call);

}  // namespace meshwright
