// The optimizer's first step, as torch.optim takes it.
#pragma once

#include "meshwright/backend.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "meshwright/training.h"

namespace meshwright {

// Updates the parameter in place. Computes in double and rounds once. The state is zero before and nobody reads it
// afterwards, so there is none. Errors: bad_input unless both are float32 or both float64.
Status take_first_step(Optimizer optimizer, const OptimizerSettings& settings, const Tensor& gradient,
                       Tensor& parameter);

}  // namespace meshwright
