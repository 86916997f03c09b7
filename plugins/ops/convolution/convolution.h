// What convolutions compute, and their gradients. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "geometry.h"
#include "meshwright/op.h"

namespace meshwright {

Result<std::vector<Tensor>> convolution_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> convolution_gradient(const GradientCall& call);

}  // namespace meshwright
