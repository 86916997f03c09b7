#include "attach_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

// y = relu(x) w, and z, which depends on no parameter.
struct Model {
  Graph graph;

  explicit Model(const Shape& shape = {4, 6, 3}, DType dtype = DType::float32) {
    graph.name = "model";
    add_source("x", {dtype, shape}, SourceKind::user_input);
    add_source("w", {dtype, {3, 5}}, SourceKind::parameter);
    graph.values[1].requires_gradient = true;
    Shape result = shape;
    result.back() = 5;
    GraphBuilder build(graph, "n");
    const ValueId z = build.emit("aten.relu", {{"self", 0}}, {}, TensorType{dtype, shape});
    const ValueId y = build.emit("aten.matmul", {{"self", z}, {"other", 1}}, {}, TensorType{dtype, result});
    const ValueId unused = build.emit("aten.relu", {{"self", y}}, {}, TensorType{dtype, result});
    graph.values[z].name = "z";
    graph.values[y].name = "y";
    graph.values[unused].name = "extra";
    graph.outputs = {
        {OutputKind::user_output, z, ""}, {OutputKind::user_output, y, ""}, {OutputKind::user_output, unused, ""}};
    mark_gradients(graph);
  }
  void add_source(const std::string& name, TensorType type, SourceKind kind) {
    graph.sources.push_back({kind, static_cast<ValueId>(graph.values.size()), {name}});
    graph.values.push_back({name, std::move(type), kNoId, false});
  }
  std::string error(const LossSettings& settings) {
    const Status status = attach_loss(graph, settings);
    return status ? "" : status.error().message;
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> all;
    for (const Node& node : graph.nodes) all.push_back(node.op);
    return all;
  }
  const Value& last_source() const { return graph.values[graph.sources.back().value]; }
};

TEST(AttachLoss, NoneChangesNothing) {
  Model model;
  const Graph before = model.graph;
  EXPECT_EQ(model.error({}), "");
  EXPECT_EQ(model.graph, before);
}

TEST(AttachLoss, CrossEntropyOfPositionsByClasses) {
  Model model({4, 3});
  ASSERT_EQ(model.error({"cross_entropy", "", false}), "");
  EXPECT_EQ(model.ops(), (std::vector<std::string>{"aten.relu", "aten.matmul", "aten.cross_entropy_loss"}));
  EXPECT_EQ(model.last_source().name, "labels");
  EXPECT_EQ(model.last_source().type, (TensorType{DType::int64, {4}}));
  ASSERT_EQ(model.graph.outputs.size(), 1U);
  EXPECT_EQ(model.graph.outputs[0].kind, OutputKind::loss);
  EXPECT_TRUE(model.graph.values[model.graph.outputs[0].value].requires_gradient);
  EXPECT_TRUE(validate(model.graph).ok());
}

TEST(AttachLoss, FlattensTheDimensionsInFrontOfTheClasses) {
  Model model;
  ASSERT_EQ(model.error({"cross_entropy", "", false}), "");
  EXPECT_EQ(model.ops(), (std::vector<std::string>{"aten.relu", "aten.matmul", "aten.view", "aten.view",
                                                   "aten.cross_entropy_loss"}));
  EXPECT_EQ(model.last_source().type, (TensorType{DType::int64, {4, 6}}));
  EXPECT_EQ(model.graph.type(model.graph.nodes.back().operands[0].value).shape, (Shape{24, 5}));
  EXPECT_TRUE(validate(model.graph).ok());
}

TEST(AttachLoss, ShiftsLabelsAndIgnoresTheLastPosition) {
  Model model;
  ASSERT_EQ(model.error({"cross_entropy", "y", true}), "");
  const Node &pad = model.graph.nodes[2], &slice = model.graph.nodes[3];
  EXPECT_EQ(pad.op, "aten.constant_pad_nd");
  EXPECT_EQ(pad.integers("pad"), (Shape{0, 1}));
  EXPECT_EQ(pad.integer("value", 0), -100);
  EXPECT_EQ(slice.op, "aten.slice.Tensor");
  EXPECT_EQ(slice.integer("start", 0), 1);
  EXPECT_EQ(slice.integer("end", 0), 7);
  EXPECT_EQ(model.graph.type(slice.results[0]).shape, (Shape{4, 6}));
}

TEST(AttachLoss, ComputesItInFloat32) {
  Model model({4, 3}, DType::bfloat16);
  ASSERT_EQ(model.error({"cross_entropy", "", false}), "");
  EXPECT_EQ(model.graph.type(model.graph.outputs[0].value).dtype, DType::float32);
  EXPECT_EQ(model.graph.nodes[2].op, "aten._to_copy");
}

TEST(AttachLoss, MeanSquaredError) {
  Model model;
  model.graph.values[1].name = "targets";  // the name is taken
  ASSERT_EQ(model.error({"mse", "extra", false}), "");
  EXPECT_EQ(model.ops().back(), "aten.mse_loss");
  EXPECT_EQ(model.last_source().name, "targets_");
  EXPECT_EQ(model.last_source().type, (TensorType{DType::float32, {4, 6, 5}}));
}

TEST(AttachLoss, KeepsWhatBuffersBecome) {
  Model model;
  model.graph.outputs.push_back({OutputKind::buffer_mutation, model.graph.outputs[0].value, "running"});
  ASSERT_EQ(model.error({"mse", "", false}), "");
  ASSERT_EQ(model.graph.outputs.size(), 2U);
  EXPECT_EQ(model.graph.outputs[1].target, "running");
}

TEST(AttachLoss, SaysWhatIsWrong) {
  Model model;
  EXPECT_EQ(model.error({"cross_entropy", "w", false}),
            "\"loss_output\" in [model]: the model has no output 'w'; did you mean \"z\"?");
  EXPECT_EQ(model.error({"cross_entropy", "z", false}),
            "\"loss_output\" in [model]: output 'z' of the model does not depend on its parameters");
  EXPECT_THAT(model.error({"mse", "", true}), HasSubstr("\"loss_shift\" in [model] goes with the loss cross_entropy"));
  EXPECT_THAT(model.error({"none", "y", false}), HasSubstr("go with a \"loss\", and there is none"));
  Model flat({4, 3});
  EXPECT_EQ(flat.error({"cross_entropy", "y", true}),
            "\"loss_shift\" in [model]: an output float32[4, 5] has no positions to shift by");
  EXPECT_THAT(Model({3}).error({"cross_entropy", "y", false}),
              HasSubstr("a cross entropy needs an output of [positions, classes]"));
  model.graph.outputs[1].kind = OutputKind::loss;
  EXPECT_EQ(model.error({"mse", "", false}),
            "\"loss\" in [model]: the model has a loss already, its output 'y'; leave \"loss\" out");
}

}  // namespace
}  // namespace meshwright
