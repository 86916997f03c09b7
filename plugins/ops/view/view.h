// What views compute, and their gradients. Private to the family.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// transpose, permute and t: whether `op` is one, and the operand's dimension behind each of the result's.
bool is_permutation(std::string_view op);
Result<std::vector<std::int64_t>> permutation_of(const Node& node, std::int64_t rank);
// Whether it exchanges the last two dimensions and does nothing else.
bool transposes(const Node& node, std::int64_t rank);

Result<std::vector<Tensor>> view_evaluate(const OpCall& call, const Tensor& operand);
Result<std::vector<ValueId>> view_gradient(const GradientCall& call);

}  // namespace meshwright
