// Broadcasting, forward and back: where an element of a result finds its operand's, and how a gradient is summed to the
// shape of an operand that was broadcast.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/graph_builder.h"
#include "meshwright/tensor.h"

namespace meshwright {

// Positions in a tensor of shape `from`, for the positions of the shape `to` that it is broadcast to.
class BroadcastIndex {
 public:
  BroadcastIndex(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to)
      : identity_(from == to), to_strides_(strides_of(to)), from_strides_(to.size(), 0) {
    const std::vector<std::int64_t> strides = strides_of(from);
    const std::size_t missing = to.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] != 1) from_strides_[missing + i] = strides[i];
    }
  }

  std::int64_t operator()(std::int64_t position) const {
    if (identity_) return position;
    std::int64_t found = 0;
    for (std::size_t i = 0; i < to_strides_.size(); ++i) {
      found += position / to_strides_[i] * from_strides_[i];
      position %= to_strides_[i];
    }
    return found;
  }

 private:
  bool identity_;
  std::vector<std::int64_t> to_strides_;
  std::vector<std::int64_t> from_strides_;
};

// Sums `gradient` over the dimensions along which a tensor of type `wanted` was broadcast (PyTorch's sum_to_size).
inline ValueId sum_to(GraphBuilder& build, ValueId gradient, const TensorType& wanted) {
  TensorType type = build.type(gradient);
  if (type.shape == wanted.shape) return gradient;
  const std::size_t missing = type.shape.size() - wanted.shape.size();
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const bool broadcast = i < missing || (wanted.shape[i - missing] == 1 && type.shape[i] != 1);
    if (!broadcast) continue;
    dims.push_back(static_cast<std::int64_t>(i));
    type.shape[i] = 1;
  }
  if (!dims.empty()) {
    gradient = build.emit("aten.sum.dim_IntList", {{"self", gradient}}, {{"dim", dims}, {"keepdim", true}}, type);
  }
  if (missing == 0) return gradient;
  return build.emit("aten.view", {{"self", gradient}}, {{"size", wanted.shape}}, TensorType{type.dtype, wanted.shape});
}

}  // namespace meshwright
