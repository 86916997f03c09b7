// What cross entropy computes. Private to the family.
#pragma once

#include <span>
#include <vector>

#include "meshwright/local_call.h"
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

// What one rank executes where classes or the positions of a mean are sharded (Megatron-LM, Shoeybi et al. 2019, §3: the
// logits are never gathered). Ops of our own; n positions, c classes, of which a rank has some:
//   cross_entropy_maximum(self) -> [n]                      the largest logit; partial maximum over c
//   cross_entropy_terms(self, target, maximum, weight?) -> [3, n]
//                                                           Σ exp(x − maximum), x − maximum of the label, the label's
//                                                           weight (0 if it is ignored); partial sums over c
//   cross_entropy_count(terms) -> []                        Σ weights; partial over n
//   cross_entropy_combine(terms, count?) -> loss            partial over n, unless there is no reduction
//   cross_entropy_combine_backward(grad_output, self, target, maximum, terms, count?) -> logits' gradient
inline bool is_sharded_step(const Node& node) {
  return node.op.starts_with("meshwright.cross_entropy_") && !is_backward(node);
}
Result<std::vector<Tensor>> sharded_step(const OpCall& call, std::span<const Tensor* const> operands);

// Emits them. False if nothing of it is sharded in a way that needs them.
bool emit_sharded_steps(const LocalCall& call);

Result<std::vector<Tensor>> loss_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
