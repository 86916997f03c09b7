// Models in half precision as the simulated ranks compute them, and models in float32 as an exact comparison does.
#pragma once

#include "meshwright/graph.h"
#include "meshwright/tensor.h"

namespace meshwright {

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// Whether any value is in half precision.
bool computes_in_half(const Graph& graph);

// The same numbers in float32, which holds every float16 and bfloat16; other tensors stay as they are.
Tensor in_float32(Tensor tensor);

// The same numbers in float64; tensors that are not float16, bfloat16 or float32 stay as they are.
Tensor in_float64(Tensor tensor);

}  // namespace meshwright
