// What sums and means compute, and their gradients. Private to the family.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// Which dimensions are summed over: those of "dim", or all.
std::vector<bool> reduced_dimensions(const Node& node, std::int64_t rank);

Result<std::vector<Tensor>> reduction_evaluate(const OpCall& call, const Tensor& operand);
Result<std::vector<ValueId>> reduction_gradient(const GradientCall& call);

}  // namespace meshwright
