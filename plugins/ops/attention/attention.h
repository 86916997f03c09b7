// What attention computes. Private to the family.
//
// Its gradient is one op of our own, since aten.scaled_dot_product_attention has no second result to save, as PyTorch's
// fused kernels do (a logarithm for each row, not counted as saved here: it is computed again):
//   meshwright.attention_backward(grad_output, output, query, key, value, attn_mask?) -> query, key, value, attn_mask
// with the forward's attributes, and "output_mask" [1, 1, 1, 0]: which of these gradients it gives.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline bool is_backward(const Node& node) { return node.op == "meshwright.attention_backward"; }

// Whether the backward gives the gradient of the operand with this number; without a mask those of queries, keys,
// values.
inline bool gives_gradient(const Node& node, std::size_t operand) {
  const std::vector<std::int64_t> mask = node.integers("output_mask");
  return mask.empty() ? operand < 3 : mask[operand] != 0;
}

Result<std::vector<Tensor>> attention_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

// Nodes that say what PyTorch's fused kernels do beside computing the result.
FoundComposites what_kernels_do(const Graph& graph);

// Queries, keys and values agree in all leading dimensions, but that keys and values may have fewer heads.
Status check_shapes(const TensorType& query, const TensorType& key, const TensorType& value);

}  // namespace meshwright
