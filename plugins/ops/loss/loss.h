// What cross entropy computes. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

enum class LossReduction : std::int64_t { none = 0, mean = 1, sum = 2 };

inline LossReduction reduction_of(const Node& node) { return static_cast<LossReduction>(node.integer("reduction", 1)); }
inline bool is_backward(const Node& node) { return node.op == "meshwright.cross_entropy_backward"; }

// Refuses what neither the rule nor the numbers know, so that nothing is computed without it.
inline Status check_supported(const Node& node, DType target) {
  if (is_floating(target)) return bad_input("class probabilities as targets are not supported");
  if (node.number("label_smoothing", 0) != 0) return bad_input("label smoothing is not supported");
  return Done{};
}

Result<std::vector<Tensor>> loss_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
