#include "test_graph.h"

namespace meshwright::onnx {
namespace {

using test::TestGraph;

constexpr double kRoot = 0.7978845608028654;

class Gelu : public testing::Test {
 protected:
  TestGraph t;
  ValueId x = kNoId;

  Gelu() { x = t.source("x", {2, 3}); }
  ValueId one_plus_erf() {
    return t.with("aten.add.Tensor", t.unary("aten.erf", t.with("aten.div.Tensor", x, 1.4142135381698608)), 1);
  }
  ValueId one_plus_tanh(ValueId cube) {
    const ValueId sum = t.both("aten.add.Tensor", x, t.with("aten.mul.Tensor", cube, 0.044715));
    return t.with("aten.add.Tensor", t.unary("aten.tanh", t.with("aten.mul.Tensor", sum, kRoot)), 1);
  }
  void expect_gelu(ValueId result, const std::string& approximate) {
    EXPECT_EQ(recognise_gelu(t.graph), 1);
    const Node node = t.finish(result);
    EXPECT_EQ(node.op, "aten.gelu");
    EXPECT_EQ(node.text("approximate", "none"), approximate);
    EXPECT_EQ(t.name_of(node, "self"), "x");
    EXPECT_EQ(t.graph.nodes.size(), 1U);
  }
};

TEST_F(Gelu, WithErfHalvedAtTheEnd) {
  expect_gelu(t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, one_plus_erf()), 0.5), "none");
}
TEST_F(Gelu, WithErfHalvedAtTheStart) {
  expect_gelu(t.both("aten.mul.Tensor", t.with("aten.mul.Tensor", x, 0.5), one_plus_erf()), "none");
}
TEST_F(Gelu, WithErfOfAProduct) {
  const ValueId sum = t.with("aten.add.Tensor", t.unary("aten.erf", t.with("aten.mul.Tensor", x, 0.70710678)), 1);
  expect_gelu(t.with("aten.div.Tensor", t.both("aten.mul.Tensor", sum, x), 2), "none");
}
TEST_F(Gelu, WithTanhOfAPower) {
  expect_gelu(t.both("aten.mul.Tensor", t.with("aten.mul.Tensor", x, 0.5),
                     one_plus_tanh(t.with("aten.pow.Tensor_Scalar", x, 3, "exponent"))),
              "tanh");
}
TEST_F(Gelu, WithTanhOfProducts) {
  const ValueId cube = t.both("aten.mul.Tensor", x, t.both("aten.mul.Tensor", x, x));
  expect_gelu(t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, one_plus_tanh(cube)), 0.5), "tanh");
}
TEST_F(Gelu, WithTanhOfAFactoredForm) {
  const ValueId square = t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, x), 0.044715 * kRoot);
  const ValueId inner = t.both("aten.mul.Tensor", x, t.with("aten.add.Tensor", square, kRoot));
  const ValueId sum = t.with("aten.add.Tensor", t.unary("aten.tanh", inner), 1);
  expect_gelu(t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, sum), 0.5), "tanh");
}

TEST_F(Gelu, OtherNumbersAreAnotherFunction) {
  const ValueId sum = t.with("aten.add.Tensor", t.unary("aten.erf", t.with("aten.div.Tensor", x, 1.4)), 1);
  (void)t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, sum), 0.5);
  (void)t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, one_plus_erf()), 0.25);
  (void)t.both("aten.mul.Tensor", t.with("aten.mul.Tensor", t.source("z", {2, 3}), 0.5), one_plus_erf());
  EXPECT_EQ(recognise_gelu(t.graph), 0);
}

TEST_F(Gelu, ThatTheAuthorWroteIsLeftAndExportersAreNot) {
  const ValueId cube = t.with("aten.pow.Tensor_Scalar", x, 3, "exponent");
  const ValueId of_author = t.both("aten.mul.Tensor", t.with("aten.mul.Tensor", x, 0.5), one_plus_tanh(cube));
  const ValueId of_tracer = t.with("aten.mul.Tensor", t.both("aten.mul.Tensor", x, one_plus_tanh(cube)), 0.5);
  const ValueId of_dynamo = t.both("aten.mul.Tensor", x, t.with("aten.mul.Tensor", one_plus_tanh(cube), 0.5));
  EXPECT_EQ(recognise_exported_gelu(t.graph), 2);
  const auto op_of = [&](ValueId value) { return t.graph.nodes[t.graph.values[value].producer].op; };
  EXPECT_EQ(op_of(of_author), "aten.mul.Tensor");
  EXPECT_EQ(op_of(of_tracer), "aten.gelu");
  EXPECT_EQ(op_of(of_dynamo), "aten.gelu");
}

TEST_F(Gelu, Silu) {
  const ValueId result = t.both("aten.mul.Tensor", t.unary("aten.sigmoid", x), x);
  (void)t.both("aten.mul.Tensor", t.unary("aten.sigmoid", x), result);
  EXPECT_EQ(recognise_silu(t.graph), 1);
  EXPECT_EQ(t.finish(result).op, "aten.silu");
}

}  // namespace
}  // namespace meshwright::onnx
