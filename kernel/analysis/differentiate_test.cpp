#include <gtest/gtest.h>

#include "analysis/slope_family.h"

namespace meshwright {
namespace {

// "empty" takes a shape alone, and passes no gradient on; of any other op each operand has one.
class TestFamily final : public testing::SlopeFamily {
  std::string slope(const Node& node, const Operand& operand) const override { return node.op == "empty" ? "" : "slope of " + operand.name; }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view) const override { return &family_; }

 private:
  TestFamily family_;
};

// A mask is made of zeros that have an activation's shape: it depends on the parameter, and no gradient comes back from it.
TEST(Differentiate, ComputesNoGradientThatReachesNoSource) {
  const TensorType type{DType::float32, {4}};
  Graph graph;
  graph.values.push_back({"p", type, kNoId, true});
  graph.sources = {{SourceKind::parameter, 0, {"p"}}};
  GraphBuilder build(graph, "node");
  const ValueId activation = build.emit("product", {{"weight", 0}}, {}, type);
  const ValueId zeros = build.emit("empty", {{"like", activation}}, {}, type);
  const ValueId mask = build.emit("product", {{"zeros", zeros}}, {}, type);
  const ValueId masked = build.emit("product", {{"activation", activation}, {"mask", mask}}, {}, type);
  const ValueId loss = build.emit("product", {{"masked", masked}}, {}, TensorType{DType::float32, {}});
  graph.outputs = {{OutputKind::loss, loss, ""}};
  mark_gradients(graph);
  ASSERT_TRUE(graph.values[mask].requires_gradient);

  const TrainingGraph training = differentiate(graph, TestOps()).value();
  EXPECT_EQ(testing::backward_ops(training), (std::vector<std::string>{"aten.ones", "slope of masked", "slope of activation", "slope of weight"}));
  EXPECT_EQ(training.gradients[mask], kNoId);
  EXPECT_EQ(training.gradients[zeros], kNoId);
  EXPECT_EQ(training.contributions[3][1], kNoId);
  EXPECT_TRUE(training.contributions[1].empty() && training.contributions[2].empty());
}

}  // namespace
}  // namespace meshwright
