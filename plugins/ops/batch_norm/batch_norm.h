// What batch normalization computes. Private to the family.
//
// Input n c x*, statistics over n and x*: everything else has the channels alone. The backward is what PyTorch's SyncBatchNorm
// does, with ops of our own, since ATen's want statistics in forms of their own:
//   meshwright.batch_norm_backward_sums(grad_output, input, mean, invstd) -> Σ grad, Σ grad·y        y: the normalized input
//   meshwright.batch_norm_backward_input(grad_output, input, mean, invstd, weight?, sum?, product?) -> the input's gradient;
//       without sums: of an evaluation, whose statistics are given. Attribute "count": of the elements of a channel
// The sums are those of any reduction: partial over a sharded batch, and all that the ranks exchange.
//
// What one rank executes where n or x* is sharded:
//   meshwright.batch_norm_mean(input) -> [c]                  Σ x / count; partial
//   meshwright.batch_norm_variance(input, mean) -> [c]        Σ (x − mean)² / count; partial
//   meshwright.batch_norm_apply(input, weight?, bias?, running_mean?, running_var?, mean, variance) -> as the forward
// Two sums one after the other, because E[x²] − E[x]² cancels in float32.
#pragma once

#include <span>
#include <vector>

#include "meshwright/local_call.h"
#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kFunctional = "aten._native_batch_norm_legit_functional";
inline constexpr const char* kNoTraining = "aten._native_batch_norm_legit_no_training";
inline constexpr const char* kNoStatistics = "aten._native_batch_norm_legit.no_stats";
inline constexpr const char* kLegit = "aten._native_batch_norm_legit";
inline constexpr const char* kComposite = "aten.batch_norm";
inline constexpr const char* kBackwardSums = "meshwright.batch_norm_backward_sums";
inline constexpr const char* kBackwardInput = "meshwright.batch_norm_backward_input";
inline constexpr const char* kMean = "meshwright.batch_norm_mean";
inline constexpr const char* kVariance = "meshwright.batch_norm_variance";
inline constexpr const char* kApply = "meshwright.batch_norm_apply";

inline bool is_forward(const Node& node) { return node.op.starts_with("aten."); }
inline bool is_sharded_step(const Node& node) { return node.op == kMean || node.op == kVariance || node.op == kApply; }

// Whether it would overwrite its running statistics, which nothing in a functional graph does.
inline bool overwrites(const Node& node) {
  return (node.op == kLegit || node.op == kComposite) && node.boolean("training", true);
}

// Whether the statistics are the batch's own.
inline bool trains(const Node& node) { return node.op != kNoTraining && node.boolean("training", true); }

Result<std::vector<Tensor>> batch_norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> batch_norm_gradient(const GradientCall& call);

// Emits what one rank executes. False if the statistics are not over what is sharded.
bool emit_sharded_steps(const LocalCall& call);

}  // namespace meshwright
