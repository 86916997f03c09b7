#include "seen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "meshwright/tensor.h"

namespace meshwright::cuda {
namespace {

std::int64_t place_of(std::int64_t index, const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& strides) {
  std::int64_t place = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    place += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return place;
}

// The strides of a shape by which its elements are those of `tensor`, in order; nothing: there are none.
std::optional<std::vector<std::int64_t>> found_by_looking(const Seen& tensor, const std::vector<std::int64_t>& shape) {
  const auto place = [&](std::int64_t index) { return place_of(index, tensor.type.shape, tensor.strides); };
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides(shape.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) strides[d] = shape[d] > 1 ? place(own[d]) : 0;
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
    if (place(i) != place_of(i, shape, strides)) return std::nullopt;
  }
  return strides;
}

// A shape of so many elements, of sizes that divide it, and ones.
std::vector<std::int64_t> draw_shape(std::int64_t elements, std::mt19937& random) {
  std::vector<std::int64_t> shape;
  while (elements > 1 || shape.empty()) {
    std::vector<std::int64_t> sizes{1};
    for (std::int64_t size = 2; size <= elements; ++size) {
      if (elements % size == 0) sizes.push_back(size);
    }
    shape.push_back(sizes[random() % sizes.size()]);
    elements /= shape.back();
  }
  return shape;
}

TEST(Seen, IsReshapedWhereStridesWillDo) {
  std::mt19937 random(1);
  int reshaped_ones = 0, others = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<std::int64_t> stored = draw_shape(48, random);
    std::vector<std::size_t> order(stored.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::ranges::shuffle(order, random);
    Seen tensor;
    for (const std::size_t d : order) {
      tensor.type.shape.push_back(stored[d]);
      tensor.strides.push_back(strides_of(stored)[d]);
    }
    const TensorType wanted{tensor.type.dtype, draw_shape(48, random)};
    const std::optional<Seen> made = reshaped(tensor, wanted);
    const auto expected = found_by_looking(tensor, wanted.shape);
    ASSERT_EQ(made.has_value(), expected.has_value());
    ++(made ? reshaped_ones : others);
    if (!made) continue;
    for (std::int64_t e = 0; e < 48; ++e)
      ASSERT_EQ(place_of(e, wanted.shape, made->strides), place_of(e, tensor.type.shape, tensor.strides));
  }
  EXPECT_GT(reshaped_ones, 300);
  EXPECT_GT(others, 300);
}

TEST(Seen, IsTransposedInItsLastTwoDimensions) {
  const Seen tensor = seen_at(nullptr, {DType::float32, {2, 3, 4}});
  const Seen made = transposed(tensor, {DType::float32, {2, 4, 3}});
  EXPECT_EQ(made.strides, (std::vector<std::int64_t>{12, 1, 4}));
  EXPECT_EQ(made.type.shape, (std::vector<std::int64_t>{2, 4, 3}));
}

}  // namespace
}  // namespace meshwright::cuda
