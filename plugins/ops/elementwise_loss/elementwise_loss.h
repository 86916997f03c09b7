// Losses that compare a prediction with a target element by element. Private to the family.
//
// self, target and the weights broadcast against each other. "reduction" is ATen's: 0 none, 1 mean, 2 sum.
#pragma once

#include <vector>

#include "meshwright/op.h"
#include "term.h"

namespace meshwright {

enum class LossReduction : std::int64_t { none = 0, mean = 1, sum = 2 };

inline LossReduction reduction_of(const Node& node) { return static_cast<LossReduction>(node.integer("reduction", 1)); }

// What the operands are broadcast to.
inline TensorType joint_type(const std::vector<TensorType>& operands) {
  TensorType joint = operands[0];
  for (const TensorType& type : operands) joint = joint_type(joint, type);
  return joint;
}

Result<std::vector<ValueId>> elementwise_loss_gradient(const GradientCall& call);

}  // namespace meshwright
