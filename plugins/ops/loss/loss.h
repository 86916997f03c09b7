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

inline double smoothing_of(const Node& node) { return node.number("label_smoothing", 0); }

// Whether the target is a probability for each class in place of a label.
inline bool has_probabilities(const OpCall& call) { return is_floating(call.operand("target")->dtype); }

// Logits n c with labels: what a vocabulary has, and what shards over its classes. Everything else keeps the classes whole:
// images n c x*, smoothed labels, probabilities.
inline bool shards_classes(const OpCall& call) {
  return call.operand("self")->rank() == 2 && smoothing_of(call.node) == 0 && !has_probabilities(call);
}

// Of a mean whose classes are whole and whose positions are sharded: a sum, divided by the global count. False if there is none.
bool emit_sharded_mean(const LocalCall& call);

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
