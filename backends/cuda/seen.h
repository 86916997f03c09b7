// How a tensor lies in a device's memory, as kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driver.h"
#include "kernels/kernel.h"
#include "meshwright/dtype.h"
#include "meshwright/result.h"
#include "meshwright/tensor_type.h"

namespace meshwright::cuda {

// A tensor, or a view of one. Its memory is not this process' own: nothing is read from it here.
struct Seen {
  TensorType type;
  std::byte* data = nullptr;          // where its first element stands
  std::vector<std::int64_t> strides;  // in elements, none of them negative

  [[nodiscard]] std::size_t element_bytes() const { return static_cast<std::size_t>(size_bytes(type.dtype)); }
  // Row by row, without gaps.
  [[nodiscard]] bool is_contiguous() const;
  // From its first element to its last.
  [[nodiscard]] Range range() const;
  // Without gaps, its dimensions are from here on in the order of another one's of as many. Of one that is repeated, or
  // whose numbers along the last dimension do not stand side by side, nothing is taken over.
  void lie_in_order_of(const Seen& other);
};

Seen seen_at(std::byte* data, TensorType type);

// Dimensions that several tensors are walked over together, as few as will do: of size 1 there are none, and those that
// follow each other without a gap in all of them are one.
struct Walk {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> strides;  // by tensor
};
Walk walk_over(std::span<const std::int64_t> sizes, const std::vector<std::vector<std::int64_t>>& strides);

// The strides of `tensor` as it is broadcast to a shape: 0 where it is repeated.
std::vector<std::int64_t> broadcast_strides(const Seen& tensor, std::span<const std::int64_t> shape);

// What these are broadcast to together.
std::vector<std::int64_t> joint_shape(std::span<const Seen> tensors);

// The dimensions, that of the largest stride first.
std::vector<std::size_t> order_of(std::span<const std::int64_t> strides);
// Without gaps, dimensions of these sizes in the order of others that have strides.
std::vector<std::int64_t> strides_in_order_of(std::span<const std::int64_t> strides,
                                              std::span<const std::int64_t> sizes);

// For kernels. Errors: bad_input for more than kMaxRank dimensions; a type that they don't compute.
Result<Sizes> sizes_for(std::span<const std::int64_t> sizes);
// The same elements in another shape, in their order. Nothing: they do not lie so that strides would do.
std::optional<Seen> reshaped(const Seen& tensor, const TensorType& type);
// With its last two dimensions exchanged.
Seen transposed(const Seen& tensor, const TensorType& type);

Result<Element> element_for(DType dtype);
Result<View> view_for(const Seen& tensor, std::span<const std::int64_t> strides);

inline std::byte* memory_of(const View& view) { return static_cast<std::byte*>(view.data); }

// What an address is a multiple of, in bytes: 16 at most.
inline std::int32_t alignment_of(const void* data) {
  std::int32_t alignment = 16;
  while (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) != 0) alignment /= 2;
  return alignment;
}

}  // namespace meshwright::cuda
