// The optimizer's step, as torch.optim takes it.
#pragma once

#include "meshwright/backend.h"
#include "meshwright/executable.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "meshwright/training.h"

namespace meshwright {

// Updates the parameter and the state in place. Computes in double and rounds once. Errors: bad_input unless parameter and gradient
// are both float32 or both float64.
Status take_step(Optimizer optimizer, const OptimizerSettings& settings, const Tensor& gradient, Tensor& parameter, OptimizerState& state);

}  // namespace meshwright
