// What pooling computes. Private to the family.
//
// The gradients are ops of our own, with the attributes of the forward; a maximum is searched for again, where ATen's wants
// the indices that only max_pool2d_with_indices gives:
//   meshwright.max_pool_backward(grad_output, self)
//   meshwright.avg_pool_backward(grad_output)
// ATen's take the operand and, of a maximum, the indices too.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kMaxBackward = "meshwright.max_pool_backward";
inline constexpr const char* kAvgBackward = "meshwright.avg_pool_backward";

inline bool is_backward(const Node& node) { return node.op.ends_with("_backward"); }
inline bool is_maximum(const Node& node) { return node.op.find("max_pool") != std::string::npos; }
inline bool is_adaptive(const Node& node) {
  return node.op.find("adaptive") != std::string::npos || node.boolean("adaptive", false);
}

// How many dimensions are pooled: "aten.max_pool2d"; the backward says it in the attribute "space".
std::size_t pooled_dimensions(const Node& node);

Result<std::vector<Tensor>> pooling_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
