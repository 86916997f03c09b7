// What normalizations compute. Private to the family.
//
// meshwright.layer_norm_backward(grad_output, input, weight?) -> input, weight, bias; meshwright.rms_norm_backward has
// no bias. aten.native_layer_norm_backward takes the statistics, mean and rstd, in place of computing them again. Attributes are the forward's, and "output_mask" [1, 1, 1]: which of these gradients are given.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kNativeLayerNorm = "aten.native_layer_norm";
inline constexpr const char* kNativeLayerNormBackward = "aten.native_layer_norm_backward";

inline bool is_softmax(const Node& node) { return node.op.find("softmax") != std::string::npos; }
inline bool is_backward(const Node& node) { return node.op.find("_backward") != std::string::npos; }

inline constexpr const char* kNormOperands[] = {"input", "weight", "bias"};

// Whether the backward gives the gradient of kNormOperands[i]; without a mask all.
inline bool gives_gradient(const Node& node, std::size_t i) {
  const std::vector<std::int64_t> mask = node.integers("output_mask");
  return mask.empty() || mask[i] != 0;
}

// The first and the last dimension whose statistics are taken.
inline std::pair<std::int64_t, std::int64_t> normalized_dimensions(const Node& node, std::int64_t rank) {
  if (!is_softmax(node)) return {rank - static_cast<std::int64_t>(node.integers("normalized_shape").size()), rank - 1};
  const std::int64_t dim = node.integer("dim", -1);
  const std::int64_t at = dim < 0 ? dim + rank : dim;
  return {at, at};
}

Result<std::vector<Tensor>> norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
