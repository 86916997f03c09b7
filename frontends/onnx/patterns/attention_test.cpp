#include <limits>

#include "test_graph.h"

namespace meshwright::onnx {
namespace {

using test::Shape;
using test::TestGraph;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Attentions : public testing::Test {
 protected:
  TestGraph t;
  ValueId q = kNoId, k = kNoId, v = kNoId;
  std::map<ValueId, Literal> known;
  std::vector<std::string> left;

  Attentions() {
    q = t.source("q", {2, 4, 8, 16});
    k = t.source("k", {2, 4, 8, 16});
    v = t.source("v", {2, 4, 8, 16});
  }
  int recognise() {
    return recognise_attention(
        t.graph, [&](ValueId value) { return known.contains(value) ? &known.at(value) : nullptr; }, left);
  }
  ValueId number(double value) {
    const ValueId id = t.weight("number" + std::to_string(t.graph.values.size()), {});
    known[id].type = t.graph.type(id);
    known[id].reals = {value};
    return id;
  }
  ValueId where(ValueId condition, ValueId a, ValueId b, const Shape& shape) {
    return t.emit("aten.where.self", {{"condition", condition}, {"self", a}, {"other", b}}, {}, shape);
  }
  // What follows the scores.
  ValueId rest(ValueId scores, bool repaired = false) {
    ValueId p = t.softmax(scores);
    if (repaired) {
      const ValueId nan = t.emit("aten.isnan", {{"self", p}}, {}, t.graph.type(p).shape, DType::boolean);
      p = t.emit("aten.where.ScalarSelf", {{"condition", nan}, {"other", p}}, {{"self", 0.0}}, t.graph.type(p).shape);
    }
    return t.matmul(p, v);
  }
  Node expect_attention(ValueId result, std::string key = "k") {
    EXPECT_EQ(recognise(), 1);
    EXPECT_TRUE(left.empty());
    const Node node = t.finish(result);
    EXPECT_EQ(node.op, "aten.scaled_dot_product_attention");
    EXPECT_EQ(t.name_of(node, "query"), "q");
    EXPECT_EQ(t.name_of(node, "key"), key);
    EXPECT_EQ(t.name_of(node, "value"), "v");
    EXPECT_EQ(node.number("scale", 0), 0.25);
    return node;
  }
  ValueId causal(DType dtype) {
    const ValueId id = t.source("mask", {1, 1, 8, 8}, SourceKind::constant, dtype);
    Literal& mask = known[id];
    mask.type = t.graph.type(id);
    for (int i = 0; i < 64; ++i) {
      const bool seen = i % 8 <= i / 8;
      if (dtype == DType::boolean)
        mask.integers.push_back(seen ? 1 : 0);
      else
        mask.reals.push_back(seen ? 0 : -kInfinity);
    }
    return id;
  }
};

TEST_F(Attentions, ScaledAfterTheProduct) {
  const Node node = expect_attention(rest(t.with("aten.div.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 4)));
  EXPECT_EQ(t.name_of(node, "attn_mask"), "");
  EXPECT_EQ(t.graph.nodes.size(), 1U);
}

TEST_F(Attentions, ScaledByRootsAndMaskedAsTheTracerDoes) {
  const ValueId keys = t.source("k2", {2, 8, 4, 16});
  const ValueId seen = t.source("seen", {2, 1, 8, 8}, SourceKind::user_input, DType::boolean);
  const ValueId turned = t.with("aten.mul.Tensor", t.permute(keys, {0, 2, 3, 1}), 0.5);
  const ValueId scores = t.matmul(t.with("aten.mul.Tensor", q, 0.5), turned);
  const ValueId mask = where(seen, number(0), number(-kInfinity), {2, 1, 8, 8});
  const ValueId result = rest(t.both("aten.add.Tensor", scores, mask), true);
  const ValueId permuted = t.graph.nodes[t.graph.values[turned].producer].operands[0].value;
  const Node node = expect_attention(result, t.graph.values[permuted].name);
  EXPECT_EQ(t.name_of(node, "attn_mask"), "seen");
  const ValueId key = node.operands[1].value;
  EXPECT_EQ(t.graph.type(key).shape, (Shape{2, 4, 8, 16}));
  EXPECT_EQ(t.graph.nodes[t.graph.values[key].producer].integers("dims"), (Shape{0, 2, 1, 3}));
}

TEST_F(Attentions, KeysTurnedWithTheirHeadsMerged) {
  const ValueId merged = t.transpose(t.view(k, {8, 8, 16}), 1, 2);
  const ValueId turned = t.view(merged, {2, 4, 16, 8});
  (void)expect_attention(rest(t.matmul(t.with("aten.mul.Tensor", q, 0.5), t.with("aten.mul.Tensor", turned, 0.5))));
}

// As the newest exporter writes it without optimizing: the scale's root is computed in the file.
TEST_F(Attentions, ScaledByARootThatTheFileComputes) {
  const ValueId one = t.emit("aten.full", {}, {{"fill_value", 1.0}}, {1}), width = t.emit("aten.full", {}, {{"fill_value", 16.0}}, {1});
  const ValueId root = t.unary("aten.sqrt", t.both("aten.div.Tensor", one, t.unary("aten.sqrt", width)));
  const ValueId scores = t.matmul(t.both("aten.mul.Tensor", q, root), t.both("aten.mul.Tensor", t.transpose(k, 2, 3), root));
  const ValueId result = rest(scores);
  settle_scalars(t.graph, [](ValueId) { return nullptr; });
  EXPECT_EQ(expect_attention(result).number("scale", 0), 0.25);
}

TEST_F(Attentions, ScoresThatAreOverwritten) {
  const ValueId hidden = t.source("hidden", {1, 1, 8, 8}, SourceKind::user_input, DType::boolean);
  const ValueId scores = t.with("aten.mul.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 0.25);
  const ValueId masked = t.emit("aten.where.ScalarSelf", {{"condition", hidden}, {"other", scores}},
                                {{"self", -3.4028235e38}}, {2, 4, 8, 8});
  const Node node = expect_attention(rest(masked));
  const ValueId mask = node.operands[3].value;
  EXPECT_EQ(t.graph.nodes[t.graph.values[mask].producer].op, "aten.logical_not");
  EXPECT_EQ(t.graph.type(mask), (TensorType{DType::boolean, {1, 1, 8, 8}}));
}

TEST_F(Attentions, AConstantMaskThatIsCausal) {
  const Node added = expect_attention(rest(t.both(
      "aten.add.Tensor", t.with("aten.div.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 4), causal(DType::float32))));
  EXPECT_TRUE(added.boolean("is_causal", false));
  EXPECT_EQ(added.operands.size(), 3U);
}

TEST_F(Attentions, AConstantMaskOfAnotherForm) {
  const ValueId mask = causal(DType::float32);
  known[mask].reals[1] = 0;
  const Node node = expect_attention(
      rest(t.both("aten.add.Tensor", t.with("aten.div.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 4), mask)));
  EXPECT_FALSE(node.boolean("is_causal", false));
  EXPECT_EQ(t.name_of(node, "attn_mask"), "mask");
}

TEST_F(Attentions, WhatOnlyLooksLikeItIsNamed) {
  const ValueId scores = t.with("aten.div.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 4);
  const ValueId squashed = t.unary("aten.tanh", scores);
  const ValueId result = rest(squashed);
  EXPECT_EQ(recognise(), 0);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(t.finish(result).op, "aten.matmul");
}

TEST_F(Attentions, ScoresThatAreUsedElsewhereStay) {
  const ValueId scores = t.with("aten.div.Tensor", t.matmul(q, t.transpose(k, 2, 3)), 4);
  const ValueId result = rest(t.both("aten.add.Tensor", scores, t.source("bias", {2, 4, 8, 8})));
  t.graph.outputs.push_back({OutputKind::user_output, scores, ""});
  EXPECT_EQ(recognise(), 0);
  EXPECT_EQ(left.size(), 1U);
  (void)result;
}

TEST_F(Attentions, AMaskBelowTheScaleIsNone) {
  const ValueId masked = t.both("aten.add.Tensor", t.matmul(q, t.transpose(k, 2, 3)), t.source("bias", {2, 4, 8, 8}));
  (void)rest(t.with("aten.div.Tensor", masked, 4));
  EXPECT_EQ(recognise(), 0);
}

TEST_F(Attentions, AClassifierIsNone) {
  const ValueId weight = t.weight("w", {16, 5});
  (void)t.softmax(t.matmul(q, weight));
  EXPECT_EQ(recognise(), 0);
  EXPECT_TRUE(left.empty());
}

}  // namespace
}  // namespace meshwright::onnx
