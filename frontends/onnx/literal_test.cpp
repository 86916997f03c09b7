#include "literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace meshwright::onnx {
namespace {

Literal of(DType dtype, std::vector<double> reals) {
  Literal literal;
  literal.type = {dtype, {static_cast<std::int64_t>(reals.size())}};
  literal.reals = std::move(reals);
  return literal;
}

TEST(Literal, EveryHalfPrecisionNumberComesBack) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Tensor tensor(TensorType{dtype, {65536}});
    for (int i = 0; i < 65536; ++i)
      tensor.as<std::uint16_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
    const Literal literal = literal_of(tensor);
    const Tensor back = tensor_of(literal);
    for (std::size_t i = 0; i < 65536; ++i) {
      if (std::isnan(literal.reals[i])) continue;
      ASSERT_EQ(back.as<std::uint16_t>()[i], i) << name(dtype) << " " << literal.reals[i];
    }
  }
}

TEST(Literal, ReadsAndRoundsAsIeee754Says) {
  Literal half = of(DType::float16, {1, -2.5, 0.1, 65504, 65520, 6e-8, 1e-9, 2049, 2051, -1e30});
  round_to_type(half);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(half.reals, (std::vector<double>{1, -2.5, 0.0999755859375, 65504, infinity, std::ldexp(1, -24), 0, 2048,
                                             2052, -infinity}));
  Literal brain = of(DType::bfloat16, {1, 257, 259, 3.39e38, -infinity});
  round_to_type(brain);
  EXPECT_EQ(brain.reals, (std::vector<double>{1, 256, 260, 3.3895313892515355e+38, -infinity}));
}

}  // namespace
}  // namespace meshwright::onnx
