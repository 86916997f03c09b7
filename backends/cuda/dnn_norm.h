// Layer norm and root mean square norm as cuDNN takes them: one operation each way.
#pragma once

#include <optional>

#include "dnn.h"
#include "kernels/norms.h"

namespace meshwright::cuda {

// Ids of tensors. Means and deviations, the latter inverted, are floats, one for each row.
namespace dnn_norm {
inline constexpr std::int64_t kInput = 1, kWeight = 2, kBias = 3, kEpsilon = 4, kMean = 5, kDeviation = 6, kOutput = 7,
                              kGradient = 8, kInputGradient = 9, kWeightGradient = 10, kBiasGradient = 11;
}  // namespace dnn_norm

// The normalized rows. Nothing: cuDNN does not take it: of other types than float32 or bfloat16, or of several; a layer
// norm that lacks weight or bias, a root mean square norm that lacks a weight or has a bias.
std::optional<DnnGraph> norm_graph(const NormArguments& arguments);

// The gradients of input and weight, and of a layer norm's bias, which its arguments need not have.
std::optional<DnnGraph> norm_gradient_graph(const NormArguments& arguments);

}  // namespace meshwright::cuda
