#include "meshwright/graph.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(TensorType, CountsElementsAndBytes) {
  const TensorType type{DType::bfloat16, {8, 1024, 768}};
  EXPECT_EQ(type.elements(), 8 * 1024 * 768);
  EXPECT_EQ(type.bytes(), 2 * 8 * 1024 * 768);
  EXPECT_EQ(to_string(type), "bfloat16[8, 1024, 768]");
}

TEST(DType, NamesRoundTrip) {
  EXPECT_EQ(parse_dtype("float32"), DType::float32);
  EXPECT_EQ(parse_dtype("float31"), std::nullopt);
  EXPECT_FALSE(is_floating(DType::boolean));
}

}  // namespace
}  // namespace meshwright
