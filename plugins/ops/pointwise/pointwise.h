// What pointwise ops compute, and their gradients. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

Result<std::vector<Tensor>> pointwise_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> pointwise_gradient(const GradientCall& call);

}  // namespace meshwright
