// Attention as cuDNN takes it: graphs of products, functions of elements and reductions that its engines know as one
// kernel, which keeps no score in memory (Dao et al. 2022, FlashAttention).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dnn.h"
#include "kernels/attention.h"
#include "meshwright/tensor_type.h"

namespace meshwright::cuda {

// Ids of tensors: those of AttentionArguments; a float for each query, the logarithm of its scores' exponentials' sum;
// gradients; and of scalars.
namespace dnn_attention {
inline constexpr std::int64_t kQuery = 1, kKey = 2, kValue = 3, kOutput = 4, kStatistics = 5, kGradient = 6,
                              kQueryGradient = 7, kKeyGradient = 8, kValueGradient = 9, kScale = 10, kUnseen = 11,
                              kTurnedKey = 12, kTurnedValue = 13,  // the same memory, read column by column
    kBias = 14;
}  // namespace dnn_attention

// What is added to scores in a mask's stead, row by row: of as many batches and heads as queries have, or of one for
// all.
struct AttentionBias {
  static constexpr DType kType = DType::bfloat16;
  std::int64_t heads = 1;           // of queries
  std::vector<std::int64_t> sizes;  // batches, heads, queries, keys

  [[nodiscard]] std::int64_t bytes() const { return TensorType{kType, sizes}.bytes(); }
};

// Graphs are of views that lie row by row, or, where they have strides, at these of batches, heads, positions and
// numbers. `heads`: of queries in each batch; 0: as many as share keys. What is made lies in the order of what it
// belongs to, without gaps: the result and the queries' gradient in that of the queries, those of keys and values in
// theirs; with a bias the result lies row by row.

// The strides of such a tensor of these sizes, whose dimensions lie in the order of the view's.
std::vector<std::int64_t> strides_like(const View& view, const std::vector<std::int64_t>& sizes);
inline bool has_strides(const View& view) { return view.strides[3] != 0; }

// Attention's result, and its statistics. Nothing: cuDNN does not take it: of types other than bfloat16, with a mask
// for which there is no bias, with dropout, of values that are not as long as keys, or with queries of which not all
// are here.
std::optional<DnnGraph> attention_graph(const AttentionArguments& arguments,
                                        const std::optional<AttentionBias>& bias = {}, std::int64_t heads = 0);

// The gradients of query, key and value, of what attention made and its statistics. Where queries share keys, each of
// them has gradients in bfloat16, which are summed.
std::optional<DnnGraph> attention_gradient_graph(const AttentionArguments& arguments,
                                                 const std::optional<AttentionBias>& bias = {}, std::int64_t heads = 0);

}  // namespace meshwright::cuda
