// Statistics of lines of numbers that no sum is: variances, norms, log-sum-exp, products. Private to the family.
//
// meshwright.prod_backward(grad_output, self) -> the gradient of self: grad times the product of all other numbers.
// Attributes are prod's, and "keepdim": whether the gradient that comes in has the reduced dimensions.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kProdBackward = "meshwright.prod_backward";

inline bool is_variance(const Node& node) { return node.op.starts_with("aten.var") || node.op.starts_with("aten.std"); }
inline bool is_deviation(const Node& node) { return node.op.starts_with("aten.std"); }

// By dimension, whether numbers along it are taken together.
std::vector<bool> reduced_dimensions(const Node& node, std::int64_t rank);
// The operand's shape with 1 where it is reduced.
std::vector<std::int64_t> kept_shape(const Node& node, const TensorType& operand);
// What is subtracted from the count of a variance.
double correction_of(const Node& node);

Result<std::vector<Tensor>> statistics_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> statistics_gradient(const GradientCall& call);

}  // namespace meshwright
