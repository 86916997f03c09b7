// Normalization over groups of channels: input n c x*, statistics over each example's group and x*. An instance
// normalization has a group for each channel. Private to the family.
//
// meshwright.group_norm_backward(grad_output, input, weight?) -> input, weight, bias: like aten.native_group_norm_backward, but
// it takes the statistics again, which aten.group_norm has no results for. Attributes "num_groups", "eps" and "output_mask"
// [1, 1, 1]: which of these gradients are given.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kBackward = "meshwright.group_norm_backward";
inline constexpr const char* kNative = "aten.native_group_norm";
inline constexpr const char* kNativeBackward = "aten.native_group_norm_backward";
inline constexpr const char* kInstance = "aten.instance_norm";

inline bool is_backward(const Node& node) { return node.op == kBackward || node.op == kNativeBackward; }

// The attribute that holds the count of groups; "" for an instance normalization.
inline const char* group_attribute(const Node& node) {
  if (node.op == kInstance) return "";
  return node.op == kNative || node.op == kNativeBackward ? "group" : "num_groups";
}

// Groups of an input with this many channels.
inline std::int64_t groups_of(const Node& node, std::int64_t channels) {
  return node.op == kInstance ? channels : node.integer(group_attribute(node), 1);
}

// Whether the backward gives the gradient of input, weight or bias; without a mask all.
inline bool gives_gradient(const Node& node, std::size_t i) {
  const std::vector<std::int64_t> mask = node.integers("output_mask");
  return mask.size() <= i || mask[i] != 0;
}

Result<std::vector<Tensor>> group_norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> group_norm_gradient(const GradientCall& call);

}  // namespace meshwright
