#include "test_graph.h"

namespace meshwright::onnx {
namespace {

using test::TestGraph;

TEST(Linear, OfAWeightThatIsTurned) {
  TestGraph t;
  const ValueId x = t.source("x", {4, 2, 3}), table = t.weight("table", {7, 3});
  const ValueId result = t.matmul(x, t.transpose(table, 0, 1));
  const ValueId not_held = t.matmul(x, t.transpose(t.source("z", {7, 3}), 0, 1));
  EXPECT_EQ(recognise_linear(t.graph), 1);
  EXPECT_EQ(t.graph.nodes[t.graph.values[not_held].producer].op, "aten.matmul");
  const Node node = t.finish(result);
  EXPECT_EQ(node.op, "aten.linear");
  EXPECT_EQ(t.name_of(node, "weight"), "table");
}

TEST(Linear, TakesItsBias) {
  TestGraph t;
  const ValueId x = t.source("x", {4, 3}), weight = t.weight("weight", {5, 3}), bias = t.weight("bias", {5});
  const ValueId product = t.emit("aten.linear", {{"input", x}, {"weight", weight}}, {}, {4, 5});
  const ValueId result = t.both("aten.add.Tensor", product, bias);
  EXPECT_EQ(recognise_bias(t.graph), 1);
  const Node node = t.finish(result);
  EXPECT_EQ(node.op, "aten.linear");
  EXPECT_EQ(t.name_of(node, "bias"), "bias");
}

TEST(Linear, AMatrixProductBecomesAddmm) {
  TestGraph t;
  const ValueId x = t.source("x", {4, 3}), weight = t.weight("weight", {3, 5}), bias = t.weight("bias", {5});
  const ValueId product = t.emit("aten.mm", {{"self", x}, {"mat2", weight}}, {}, {4, 5});
  const ValueId result = t.both("aten.add.Tensor", bias, product);
  EXPECT_EQ(recognise_bias(t.graph), 1);
  const Node node = t.finish(result);
  EXPECT_EQ(node.op, "aten.addmm");
  EXPECT_EQ(t.name_of(node, "self"), "bias");
  EXPECT_EQ(t.name_of(node, "mat2"), "weight");
}

TEST(Linear, AProductThatIsUsedElsewhereKeepsToItself) {
  TestGraph t;
  const ValueId x = t.source("x", {4, 3}), weight = t.weight("weight", {5, 3}), bias = t.weight("bias", {5});
  const ValueId product = t.emit("aten.linear", {{"input", x}, {"weight", weight}}, {}, {4, 5});
  const ValueId sum = t.both("aten.add.Tensor", product, bias);
  (void)t.both("aten.mul.Tensor", product, sum);
  (void)t.both("aten.add.Tensor", t.unary("aten.relu", product), t.source("input", {5}));
  EXPECT_EQ(recognise_bias(t.graph), 0);
}

}  // namespace
}  // namespace meshwright::onnx
