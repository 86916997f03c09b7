// Convolutions as cuDNN takes them.
#pragma once

#include <optional>

#include "dnn.h"
#include "kernels/convolutions.h"

namespace meshwright::cuda {

inline constexpr std::int64_t kDnnInput = 1, kDnnWeight = 2, kDnnOutput = 3;  // ids of tensors

// What the kernel of this name computes, without the bias. Nothing: cuDNN does not take it, since its tensors are of
// other types than float32 or bfloat16, or of several, or since no padding gives the output its size.
std::optional<DnnGraph> convolution_graph(const ConvolutionArguments& arguments, KernelId kernel);

}  // namespace meshwright::cuda
