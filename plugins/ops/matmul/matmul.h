// What matrix products compute, and their gradients. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// beta·self + alpha·product.
inline bool adds_to_self(const Node& node) { return node.op == "aten.addmm" || node.op == "aten.baddbmm"; }

std::vector<Tensor> matmul_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
std::vector<ValueId> matmul_gradient(const GradientCall& call);

// Products whose factors PyTorch copies before it multiplies them, with these copies.
FoundComposites copies_of_batches(const Graph& graph);

}  // namespace meshwright
