#include "test_graph.h"

namespace meshwright::onnx {
namespace {

using test::TestGraph;

class Norms : public testing::Test {
 protected:
  TestGraph t;
  ValueId x = kNoId, weight = kNoId, bias = kNoId;

  Norms() {
    x = t.source("x", {2, 3, 8});
    weight = t.weight("weight", {8});
    bias = t.weight("bias", {8});
  }
  ValueId centered() { return t.both("aten.sub.Tensor", x, t.mean(x)); }
  ValueId variance(ValueId c) {
    return t.with("aten.add.Tensor", t.mean(t.with("aten.pow.Tensor_Scalar", c, 2, "exponent")), 1e-5);
  }
  ValueId affine(ValueId y) { return t.both("aten.add.Tensor", t.both("aten.mul.Tensor", y, weight), bias); }
  void expect_layer_norm(ValueId result, bool affine = true) {
    EXPECT_EQ(recognise_layer_norm(t.graph), 1);
    const Node node = t.finish(result);
    EXPECT_EQ(node.op, "aten.layer_norm");
    EXPECT_EQ(t.name_of(node, "input"), "x");
    EXPECT_EQ(t.name_of(node, "weight"), affine ? "weight" : "");
    EXPECT_EQ(t.name_of(node, "bias"), affine ? "bias" : "");
    EXPECT_EQ(node.integers("normalized_shape"), std::vector<std::int64_t>{8});
    EXPECT_EQ(node.number("eps", 0), 1e-5);
    EXPECT_EQ(t.graph.nodes.size(), 1U);
  }
};

TEST_F(Norms, LayerNormAsTheTracerWritesIt) {
  const ValueId c = centered();
  expect_layer_norm(affine(t.both("aten.div.Tensor", c, t.unary("aten.sqrt", variance(c)))));
}
TEST_F(Norms, LayerNormWithTheDifferenceTwice) {
  expect_layer_norm(affine(t.both("aten.div.Tensor", centered(), t.unary("aten.sqrt", variance(centered())))));
}
TEST_F(Norms, LayerNormWithAReciprocal) {
  const ValueId c = centered();
  expect_layer_norm(
      affine(t.both("aten.mul.Tensor", t.unary("aten.reciprocal", t.unary("aten.sqrt", variance(c))), c)));
}
TEST_F(Norms, LayerNormOfASquareWithoutAffine) {
  const ValueId c = centered();
  const ValueId power = t.with("aten.add.Tensor", t.mean(t.both("aten.mul.Tensor", c, c)), 1e-5);
  expect_layer_norm(t.both("aten.div.Tensor", c, t.unary("aten.sqrt", power)), false);
}

TEST_F(Norms, AMeanOverOtherDimensionsIsNone) {
  const ValueId other = t.emit("aten.mean.dim", {{"self", x}}, {{"dim", test::Shape{1}}, {"keepdim", true}}, {2, 1, 8});
  const ValueId c = t.both("aten.sub.Tensor", x, other);
  (void)t.both("aten.div.Tensor", c, t.unary("aten.sqrt", variance(c)));
  EXPECT_EQ(recognise_layer_norm(t.graph), 0);
  EXPECT_EQ(recognise_rms_norm(t.graph), 1);  // which it is, of the difference
}

TEST_F(Norms, RmsNorm) {
  const ValueId root = t.unary("aten.rsqrt", variance(x));
  const ValueId result = t.both("aten.mul.Tensor", weight, t.both("aten.mul.Tensor", x, root));
  EXPECT_EQ(recognise_layer_norm(t.graph), 0);
  EXPECT_EQ(recognise_rms_norm(t.graph), 1);
  const Node node = t.finish(result);
  EXPECT_EQ(node.op, "aten.rms_norm");
  EXPECT_EQ(t.name_of(node, "weight"), "weight");
  EXPECT_EQ(t.graph.nodes.size(), 1U);
}

}  // namespace
}  // namespace meshwright::onnx
