// Elements written over, or reduced with, those of a tensor at positions along one dimension, or under a mask. Private to the
// family.
//
// meshwright.masked_scatter_backward(grad_output, mask) -> the gradient of source: the gradient's elements under the mask, in
// their order, and zeros after them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kMaskedBackward = "meshwright.masked_scatter_backward";

inline bool is_masked(const Node& node) { return node.op == "aten.masked_scatter" || node.op == kMaskedBackward; }

enum class ScatterReduction { overwrite, sum, mean, product, maximum, minimum };

// Errors: bad_input: a reduction that nobody knows.
Result<ScatterReduction> scatter_reduction(const Node& node);

inline bool includes_self(const Node& node) { return node.boolean("include_self", true); }

inline std::size_t scatter_dimension(const Node& node, std::int64_t rank) {
  const std::int64_t at = node.integer("dim", 0);
  return static_cast<std::size_t>(at < 0 ? at + rank : at);
}

Result<std::vector<Tensor>> scatter_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> scatter_gradient(const GradientCall& call);

}  // namespace meshwright
