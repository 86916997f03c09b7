// What cutting and joining compute, and their gradients. Private to the family.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// The attribute "dim", counted from the front.
std::size_t joint_dimension(const Node& node, std::int64_t rank);

Result<std::vector<Tensor>> join_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> join_gradient(const GradientCall& call);

}  // namespace meshwright
