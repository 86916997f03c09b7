#include "rule/foreign_gradient.h"

#include <gtest/gtest.h>

#include "analysis/slope_family.h"
#include "meshwright/atoms.h"

namespace meshwright {
namespace {

using testing::backward_ops;

// "product" states its gradient; "half" begins to, and finds that it can't.
class TestFamily final : public testing::SlopeFamily {
  std::string slope(const Node&, const Operand&) const override { return "slope"; }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    Result<std::vector<ValueId>> gradients = SlopeFamily::do_gradient(call);
    if (call.node.op == "half") return bad_input("with these attributes it has none");
    return gradients;
  }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view op) const override { return op == "unknown" ? nullptr : &family_; }

 private:
  TestFamily family_;
};

const TestOps kOps;

// A parameter, an op, and a loss of its result.
TrainingGraph trained(const std::string& op, DType dtype) {
  Graph graph;
  graph.values.push_back({"p", {DType::float32, {4}}, kNoId, true});
  graph.values.push_back({"x", {DType::float32, {4}}, kNoId, false});
  graph.sources = {{SourceKind::parameter, 0, {"p"}}, {SourceKind::user_input, 1, {"x"}}};
  GraphBuilder build(graph, "node");
  const ValueId result = build.emit(op, {{"self", 0}, {"other", 1}}, {}, TensorType{dtype, {4}});
  const ValueId loss = build.emit("product", {{"self", result}}, {}, TensorType{DType::float32, {}});
  graph.outputs = {{OutputKind::loss, loss, ""}};
  mark_gradients(graph);
  return differentiate(graph, kOps).value();
}

TEST(ForeignGradient, IsOneNodeWhereNobodyServesTheOp) {
  const TrainingGraph training = trained("unknown", DType::float32);
  EXPECT_EQ(backward_ops(training), (std::vector<std::string>{"aten.ones", "slope", kForeignGradient}));
  const Node& node = training.graph.nodes.back();
  EXPECT_EQ(node.text("op", ""), "unknown");
  ASSERT_EQ(node.operands.size(), 3U);  // what the op reads, and the gradient of its result
  EXPECT_EQ(node.operands[2].name, "gradient.0");
  ASSERT_EQ(node.results.size(), 1U);  // the parameter's alone is wanted
  EXPECT_EQ(training.graph.type(node.results[0]), (TensorType{DType::float32, {4}}));
  EXPECT_EQ(training.gradients[0], node.results[0]);
}

TEST(ForeignGradient, LeavesNothingOfAGradientThatCouldNotBeStated) {
  const TrainingGraph training = trained("half", DType::float32);
  EXPECT_EQ(backward_ops(training), (std::vector<std::string>{"aten.ones", "slope", kForeignGradient}));
  EXPECT_TRUE(training.graph.values[training.gradients[0]].producer == training.graph.nodes.size() - 1);
}

TEST(ForeignGradient, StandsForComplexNumbersWhoeverServesTheOp) {
  EXPECT_EQ(backward_ops(trained("product", DType::complex64)),
            (std::vector<std::string>{"aten.ones", kForeignGradient, kForeignGradient}));
  EXPECT_EQ(backward_ops(trained("product", DType::float32)), (std::vector<std::string>{"aten.ones", "slope", "slope"}));
}

TEST(ForeignGradient, OpsWithoutOneAreReplicated) {
  Graph graph;
  graph.values.push_back({"p", {DType::float32, {4}}, kNoId, true});
  graph.sources = {{SourceKind::parameter, 0, {"p"}}};
  GraphBuilder build(graph, "node");
  const ValueId half = build.emit("half", {{"self", 0}}, {}, TensorType{DType::float32, {4}});
  build.emit("product", {{"self", half}}, {}, TensorType{DType::float32, {4}});
  mark_gradients(graph);
  const AtomizedGraph atoms = atomize(graph, kOps).value();
  EXPECT_FALSE(atoms.nodes[0].ruled);
  EXPECT_TRUE(atoms.nodes[1].ruled);
  ASSERT_EQ(atoms.warnings.size(), 1U);
  EXPECT_EQ(atoms.warnings[0], "half runs replicated: its op family states no gradient for this call (first at 'node0' in '')");
}

TEST(Gradients, DoNotPassADetachedValue) {
  Graph graph;
  graph.values.push_back({"p", {DType::float32, {4}}, kNoId, true});
  graph.sources = {{SourceKind::parameter, 0, {"p"}}};
  GraphBuilder build(graph, "node");
  const ValueId detached = build.emit("aten.detach", {{"self", 0}}, {}, TensorType{DType::float32, {4}});
  const ValueId behind = build.emit("product", {{"self", detached}}, {}, TensorType{DType::float32, {4}});
  const ValueId beside = build.emit("product", {{"self", detached}, {"other", 0}}, {}, TensorType{DType::float32, {4}});
  mark_gradients(graph);
  EXPECT_FALSE(graph.values[detached].requires_gradient || graph.values[behind].requires_gradient);
  EXPECT_TRUE(graph.values[beside].requires_gradient);
  EXPECT_TRUE(validate(graph)) << validate(graph).error().message;
}

}  // namespace
}  // namespace meshwright
