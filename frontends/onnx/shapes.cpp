#include "shapes.h"

#include <algorithm>

namespace meshwright::onnx {

std::int64_t product(const Shape& shape) {
  std::int64_t all = 1;
  for (const std::int64_t size : shape) all *= size;
  return all;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::optional<std::size_t> from_front(std::int64_t dimension, std::int64_t rank) {
  if (dimension < 0) dimension += rank;
  if (dimension < 0 || dimension >= rank) return std::nullopt;
  return static_cast<std::size_t>(dimension);
}

std::optional<Shape> reshaped(const Shape& from, const Shape& wanted, bool allow_zero) {
  Shape result = wanted;
  std::optional<std::size_t> rest;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] == 0 && !allow_zero) {
      if (i >= from.size()) return std::nullopt;
      result[i] = from[i];
    }
    if (result[i] < -1 || (result[i] == -1 && rest)) return std::nullopt;
    if (result[i] == -1)
      rest = i;
    else
      known *= result[i];
  }
  const std::int64_t all = product(from);
  if (!rest) return known == all ? std::optional(result) : std::nullopt;
  if (known == 0 || all % known != 0) return std::nullopt;
  result[*rest] = all / known;
  return result;
}

SliceRange slice_range(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  const auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::clamp(at, low, high);
  };
  step = std::clamp(step, -size - 1, size + 1);  // longer ones end behind the first element too
  SliceRange range{0, 0, step};
  if (step > 0) {
    range.start = clamp(start, 0, size);
    const std::int64_t stop = end < -size ? 0 : clamp(end, 0, size);
    range.count = stop > range.start ? (stop - range.start + step - 1) / step : 0;
  } else if (step < 0) {
    range.start = clamp(start, -1, size - 1);
    const std::int64_t stop = clamp(end, -1, size - 1);
    range.count = range.start > stop ? (range.start - stop - step - 1) / -step : 0;
  }
  return range;
}

Shape strides_for(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Shape reduced(const Shape& shape, const std::vector<std::size_t>& axes, bool keep) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end())
      result.push_back(shape[i]);
    else if (keep)
      result.push_back(1);
  }
  return result;
}

}  // namespace meshwright::onnx
