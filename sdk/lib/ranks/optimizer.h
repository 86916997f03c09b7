// The optimizer's step, as torch.optim takes it.
#pragma once

#include "meshwright/backend.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "meshwright/training.h"

namespace meshwright {

// What the optimizer keeps of a parameter from step to step, in the parameter's type: momentum's buffer or Adam's first
// moment, and Adam's second. Empty before the first step, and where the optimizer keeps none.
struct OptimizerState {
  std::int64_t steps = 0;  // that were taken
  Tensor first, second;
};

// Updates the parameter and the state in place. Computes in double and rounds once. Errors: bad_input unless parameter and gradient
// are both float32 or both float64.
Status take_step(Optimizer optimizer, const OptimizerSettings& settings, const Tensor& gradient, Tensor& parameter, OptimizerState& state);

}  // namespace meshwright
