// What ops that compare elements along dimensions compute. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// Orders elements; its results are as long as the operand, or as "k" says.
inline bool sorts(const Node& node) { return node.op == "aten.topk" || node.op.starts_with("aten.sort") || node.op.starts_with("aten.argsort"); }

// Which dimensions are compared along: those of "dim", or all; topk and sort take the last one by default.
std::vector<bool> compared_dimensions(const Node& node, std::int64_t rank);

Result<std::vector<Tensor>> selection_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> selection_gradient(const GradientCall& call);

}  // namespace meshwright
