// Gradients that no op family of ours states. An emitted program has PyTorch's autograd, which knows them: here they
// stand as one node each, which is priced by its bytes, runs replicated, and which no backend of ours computes.
#pragma once

#include <vector>

#include "meshwright/op.h"
#include "meshwright/result.h"

namespace meshwright {

inline constexpr const char* kForeignGradient = "meshwright.autograd";

// Emits one node, kForeignGradient, that reads the call's operands and the gradients of its results, and makes the
// gradients that are wanted. Its attribute "op" names the op. As OpFamily::gradient.
std::vector<ValueId> foreign_gradient(const GradientCall& call);

// Whether the family states the gradient of this call, of which `wanted` says for each operand whether it has one.
bool states_gradient(const OpFamily& family, const OpCall& call, const std::vector<bool>& wanted);

}  // namespace meshwright
