// What convolutions compute, and their gradients. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "geometry.h"
#include "meshwright/op.h"

namespace meshwright {

// Whether aten.convolution_backward gives the gradient of input, weight or bias; without a mask all.
inline bool gives_gradient(const Node& node, std::size_t i) {
  const std::vector<std::int64_t> mask = node.integers("output_mask");
  return mask.size() <= i || mask[i] != 0;
}

Result<std::vector<Tensor>> convolution_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> convolution_gradient(const GradientCall& call);

}  // namespace meshwright
