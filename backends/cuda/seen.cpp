#include "seen.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "meshwright/tensor.h"

namespace meshwright::cuda {

bool Seen::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    if (type.shape[d] != 1 && strides[d] != expected) return false;
    expected *= type.shape[d];
  }
  return true;
}

Range Seen::range() const {
  if (type.elements() == 0) return {data, 0};
  std::int64_t last = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) last += (type.shape[d] - 1) * strides[d];
  return {data, static_cast<std::size_t>(last + 1) * element_bytes()};
}

void Seen::lie_in_order_of(const Seen& other) {
  std::vector<std::int64_t> theirs = other.strides;
  std::int64_t behind = 1;  // what a dimension of one element, which may have any stride, is given: it lies as in rows
  for (std::size_t d = theirs.size(); d-- > 0;) {
    const std::int64_t size = other.type.shape[d];
    if (size == 1) theirs[d] = behind;
    if (d + 1 == theirs.size() ? theirs[d] != 1 : theirs[d] == 0) return;
    behind = size * theirs[d];
  }
  strides = strides_in_order_of(theirs, type.shape);
}

Seen seen_at(std::byte* data, TensorType type) {
  std::vector<std::int64_t> strides = strides_of(type.shape);
  return {std::move(type), data, std::move(strides)};
}

Walk walk_over(std::span<const std::int64_t> sizes, const std::vector<std::vector<std::int64_t>>& strides) {
  Walk walk{{}, std::vector<std::vector<std::int64_t>>(strides.size())};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const auto goes_on = [&](std::size_t t) { return walk.strides[t].back() == strides[t][d] * sizes[d]; };
    std::vector<std::size_t> tensors(strides.size());
    std::iota(tensors.begin(), tensors.end(), std::size_t{0});
    const bool joins = !walk.sizes.empty() && std::ranges::all_of(tensors, goes_on);
    if (joins)
      walk.sizes.back() *= sizes[d];
    else
      walk.sizes.push_back(sizes[d]);
    for (const std::size_t t : tensors) {
      if (joins)
        walk.strides[t].back() = strides[t][d];
      else
        walk.strides[t].push_back(strides[t][d]);
    }
  }
  return walk;
}

std::vector<std::int64_t> broadcast_strides(const Seen& tensor, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t missing = shape.size() - tensor.strides.size();
  for (std::size_t d = 0; d < tensor.strides.size(); ++d)
    strides[missing + d] = tensor.type.shape[d] == 1 ? 0 : tensor.strides[d];
  return strides;
}

std::vector<std::int64_t> joint_shape(std::span<const Seen> tensors) {
  std::vector<std::int64_t> joint;
  for (const Seen& tensor : tensors) {
    const std::vector<std::int64_t>& shape = tensor.type.shape;
    if (joint.size() < shape.size()) joint.insert(joint.begin(), shape.size() - joint.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) joint[joint.size() - shape.size() + d] = shape[d];
    }
  }
  return joint;
}

std::vector<std::size_t> order_of(std::span<const std::int64_t> strides) {
  std::vector<std::size_t> order(strides.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t d) { return strides[d]; });
  return order;
}

std::vector<std::int64_t> strides_in_order_of(std::span<const std::int64_t> strides,
                                              std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> made(sizes.size());
  std::int64_t stride = 1;
  const std::vector<std::size_t> order = order_of(strides);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    made[*d] = stride;
    stride *= sizes[*d];
  }
  return made;
}

Result<Sizes> sizes_for(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank)
    return bad_input("kernels of cuda walk over at most " + std::to_string(kMaxRank) + " dimensions, and this has " +
                     std::to_string(sizes.size()));
  Sizes made;
  made.rank = static_cast<std::int32_t>(sizes.size());
  std::ranges::copy(sizes, made.of);
  return made;
}

// Dimensions that follow each other at one stride are one, which the shape's may divide again.
std::optional<Seen> reshaped(const Seen& tensor, const TensorType& type) {
  if (tensor.is_contiguous() || type.elements() == 0) return seen_at(tensor.data, type);
  const Walk walk = walk_over(tensor.type.shape, {tensor.strides});
  Seen made{type, tensor.data, std::vector<std::int64_t>(type.shape.size(), 0)};
  std::size_t d = type.shape.size();
  for (std::size_t outer = walk.sizes.size(); outer-- > 0;) {
    std::int64_t left = walk.sizes[outer], stride = walk.strides[0][outer];
    while (left > 1) {
      if (d == 0 || left % type.shape[--d] != 0) return std::nullopt;
      made.strides[d] = stride;
      left /= type.shape[d];
      stride *= type.shape[d];
    }
  }
  return made;
}

Seen transposed(const Seen& tensor, const TensorType& type) {
  Seen made{type, tensor.data, tensor.strides};
  std::swap(made.strides[made.strides.size() - 1], made.strides[made.strides.size() - 2]);
  return made;
}

Result<Element> element_for(DType dtype) {
  if (dtype == DType::float16 || is_complex(dtype))
    return bad_input("kernels of cuda do not compute " + std::string(name(dtype)) + " yet");
  return static_cast<Element>(dtype);
}

Result<View> view_for(const Seen& tensor, std::span<const std::int64_t> strides) {
  const Result<Element> element = element_for(tensor.type.dtype);
  if (!element) return element.error();
  View view;
  view.data = tensor.data;
  view.element = *element;
  std::ranges::copy(strides, view.strides);
  return view;
}

}  // namespace meshwright::cuda
