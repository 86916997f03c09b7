// Numbers in another type, on the host: bfloat16 is nothing that a Tensor computes with.
#pragma once

#include "meshwright/tensor.h"

namespace meshwright::cuda {

// The same numbers, each rounded as kernels round it. Neither type is float16 or complex, unless they are one.
Tensor converted(Tensor tensor, DType to);

}  // namespace meshwright::cuda
