// The negative log-likelihood of labels, given log-probabilities n c x*. Private to the family.
//
// Ops of our own beside ATen's:
//   meshwright.nll_count(target, weight?) -> []                      Σ weights of the labels that are not ignored
//   meshwright.nll_backward(grad_output, target, weight?) -> n c x*  −weight·grad at the label; grad_output as the loss,
//                                                                    divided by the count if it is a mean
// A class' weight and the log-probability of a label are found by ShardIndex "classes".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "meshwright/local_call.h"
#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kCount = "meshwright.nll_count";
inline constexpr const char* kBackward = "meshwright.nll_backward";

enum class LossReduction : std::int64_t { none = 0, mean = 1, sum = 2 };
inline LossReduction reduction_of(const Node& node) { return static_cast<LossReduction>(node.integer("reduction", 1)); }

// The dimension of the classes in a tensor of this rank.
inline std::size_t class_dimension(std::int64_t rank) { return rank > 1 ? 1 : 0; }

Result<std::vector<Tensor>> nll_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
void nll_localize(const LocalCall& call);

}  // namespace meshwright
