// Arithmetic on shapes as ONNX defines it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meshwright::onnx {

using Shape = std::vector<std::int64_t>;

std::int64_t product(const Shape& shape);

// The common shape of operands that are broadcast against each other; none if they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// `dimension` counted from the front; none if it is outside of [-rank, rank).
std::optional<std::size_t> from_front(std::int64_t dimension, std::int64_t rank);

// What Reshape makes of `wanted`: 0 keeps a size (unless `allow_zero`), one -1 takes the rest. None if it does not fit.
std::optional<Shape> reshaped(const Shape& from, const Shape& wanted, bool allow_zero);

// A slice of one dimension with ONNX's clamping. `count` positions from `start` on, `step` apart.
struct SliceRange {
  std::int64_t start = 0, count = 0, step = 1;
};
SliceRange slice_range(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size);

// How many elements a step along each dimension is, row-major.
Shape strides_for(const Shape& shape);

// The shape without the dimensions in `axes`, or with a 1 in their place.
Shape reduced(const Shape& shape, const std::vector<std::size_t>& axes, bool keep);

}  // namespace meshwright::onnx
