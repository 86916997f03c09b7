#include "in_float32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace meshwright {
namespace {

Tensor of_bits(DType dtype, const std::vector<std::uint16_t>& bits) {
  Tensor tensor(TensorType{dtype, {static_cast<std::int64_t>(bits.size())}});
  std::copy(bits.begin(), bits.end(), tensor.as<std::uint16_t>().begin());
  return tensor;
}

TEST(InFloat32, HoldsEveryFormOfNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor half = in_float32(of_bits(DType::float16, {0x3c00, 0xc100, 0x0001, 0x7bff, 0xfc00, 0x7e00, 0x8000}));
  const auto numbers = half.as<float>();
  EXPECT_EQ(half.type(), (TensorType{DType::float32, {7}}));
  EXPECT_EQ(numbers[0], 1.0F);
  EXPECT_EQ(numbers[1], -2.5F);
  EXPECT_EQ(numbers[2], 0x1p-24F);  // the smallest
  EXPECT_EQ(numbers[3], 65504.0F);  // the largest
  EXPECT_EQ(numbers[4], -infinity);
  EXPECT_TRUE(std::isnan(numbers[5]));
  EXPECT_TRUE(numbers[6] == 0 && std::signbit(numbers[6]));
  const Tensor brain = in_float32(of_bits(DType::bfloat16, {0x3f80, 0xc020, 0x7f80}));
  EXPECT_EQ(brain.as<float>()[0], 1.0F);
  EXPECT_EQ(brain.as<float>()[1], -2.5F);
  EXPECT_EQ(brain.as<float>()[2], infinity);
}

TEST(InFloat32, LeavesOtherTensorsAlone) {
  Tensor positions(TensorType{DType::int64, {2}});
  positions.set(1, 7);
  const Tensor same = in_float32(positions);
  EXPECT_EQ(same.type(), positions.type());
  EXPECT_EQ(same.get(1), 7);
}

}  // namespace
}  // namespace meshwright
