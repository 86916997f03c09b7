// What ONNX ops become.
#include <gmock/gmock.h>

#include <set>

#include "onnx_types.h"
#include "test_model.h"

namespace meshwright::onnx {
namespace {

using test::kind_of;
using test::ops_of;
using test::set;
using test::TestModel;
using Ops = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

Graph read(const TestModel& model, const OpenDimensions& open = {}, const Options& options = {}) {
  Result<Graph> graph = model.read(open, options);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return graph.ok() ? std::move(*graph) : Graph{};
}

Shape output_shape(const Graph& graph) {
  return graph.outputs.empty() ? Shape{-1} : graph.type(graph.outputs[0].value).shape;
}

// One node between `inputs`, which are floats of these shapes, and an output.
struct OneNode {
  explicit OneNode(const std::string& op, const std::vector<std::vector<test::Size>>& inputs, int opset = 17)
      : model(opset) {
    std::vector<std::string> names;
    for (const auto& shape : inputs) {
      names.push_back("x" + std::to_string(names.size()));
      model.input(names.back(), shape);
    }
    node = &model.node(op, names, {"y"});
    model.output("y");
  }
  OneNode& operand(const std::string& name) {
    node->add_input(name);
    return *this;
  }
  TestModel model;
  ::onnx::NodeProto* node;
};

TEST(Translate, AConstantOfOneElementIsANumber) {
  for (const auto& [op, expected] : std::map<std::string, std::string>{{"Add", "aten.add.Tensor"},
                                                                       {"Sub", "aten.sub.Tensor"},
                                                                       {"Mul", "aten.mul.Tensor"},
                                                                       {"Div", "aten.div.Tensor"}}) {
    OneNode one(op, {{2, 3}});
    one.operand("c").model.floats("c", {}, {1e-5F});
    const Graph graph = read(one.model);
    ASSERT_EQ(ops_of(graph), Ops{expected});
    EXPECT_EQ(graph.nodes[0].operands.size(), 1U);
    EXPECT_EQ(graph.nodes[0].number("other", 0), 1e-5);  // the decimal number, not the nearest float32
  }
}

TEST(Translate, ANumberInFront) {
  TestModel model;
  model.input("x", {2, 3});
  model.floats("c", {}, {2});
  model.node("Sub", {"c", "x"}, {"a"});
  model.node("Div", {"c", "a"}, {"b"});
  model.node("Greater", {"c", "b"}, {"y"});
  model.output("y");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.rsub.Scalar", "aten.reciprocal", "aten.mul.Tensor", "aten.lt.Scalar"}));
}

TEST(Translate, ANumberThatWidensTheResultStaysATensor) {
  OneNode one("Add", {{}});
  one.operand("c").model.floats("c", {1, 1}, {2});
  const Graph graph = read(one.model);
  EXPECT_EQ(output_shape(graph), (Shape{1, 1}));
  EXPECT_EQ(graph.nodes[0].operands.size(), 2U);
}

TEST(Translate, ProductsWithAWeightAreLinear) {
  TestModel model;
  model.input("x", {4, 2, 3});
  model.floats("w", {3, 5});
  model.floats("b", {5});
  model.node("MatMul", {"x", "w"}, {"p"});
  model.node("Add", {"b", "p"}, {"y"});
  model.output("y");
  const Graph graph = read(model);
  ASSERT_EQ(ops_of(graph), Ops{"aten.linear"});
  EXPECT_EQ(graph.type(graph.nodes[0].operands[1].value).shape, (Shape{5, 3}));
  EXPECT_EQ(graph.nodes[0].operands[2].name, "bias");
  EXPECT_EQ(kind_of(graph, "w"), SourceKind::parameter);
  EXPECT_EQ(output_shape(graph), (Shape{4, 2, 5}));
}

TEST(Translate, AWeightThatIsATableTooIsOneParameter) {
  TestModel model;
  model.input("ids", {4, 2}, 7);
  model.floats("table", {6, 3});
  model.node("Gather", {"table", "ids"}, {"x"});
  model.node("Transpose", {"table"}, {"turned"});
  model.node("MatMul", {"x", "turned"}, {"y"});
  model.output("y");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.embedding", "aten.linear"}));
  EXPECT_EQ(graph.sources.size(), 2U);
}

TEST(Translate, ATransposedCopyOfATableIsTheTable) {
  TestModel model;
  model.input("ids", {4, 2}, 7);
  model.floats("table", {2, 3}, {1, 2, 3, 4, 5, 6});
  model.floats("onnx::MatMul_9", {3, 2}, {1, 4, 2, 5, 3, 6});
  model.node("Gather", {"table", "ids"}, {"x"});
  model.node("MatMul", {"x", "onnx::MatMul_9"}, {"y"});
  model.output("y");
  Graph graph = read(model);
  ASSERT_EQ(graph.sources.size(), 2U);
  EXPECT_EQ(graph.sources[1].names, (std::vector<std::string>{"table", "onnx::MatMul_9"}));
  model.proto().mutable_graph()->mutable_initializer(1)->set_float_data(3, 7);
  graph = read(model);
  EXPECT_EQ(graph.sources.size(), 3U);
}

TEST(Translate, Gemm) {
  struct Case {
    std::int64_t turn_a, turn_b;
    double alpha, beta;
    bool bias;
    Ops ops;
  };
  for (const Case& one :
       {Case{0, 1, 1, 1, true, {"aten.linear"}}, Case{0, 1, 1, 1, false, {"aten.linear"}},
        Case{0, 0, 1, 1, true, {"aten.addmm"}}, Case{0, 0, 1, 1, false, {"aten.mm"}},
        Case{1, 0, 1, 1, true, {"aten.transpose.int", "aten.addmm"}},
        Case{0, 0, 2, 1, false, {"aten.mm", "aten.mul.Tensor"}}, Case{0, 0, 2, 0.5, true, {"aten.addmm"}}}) {
    TestModel model;
    model.input("x", one.turn_a ? std::vector<test::Size>{3, 4} : std::vector<test::Size>{4, 3});
    model.floats("w", one.turn_b ? std::vector<int>{5, 3} : std::vector<int>{3, 5});
    model.floats("b", {5});
    auto& node = model.node("Gemm", one.bias ? Ops{"x", "w", "b"} : Ops{"x", "w"}, {"y"});
    set(node, "transA", one.turn_a);
    set(node, "transB", one.turn_b);
    set(node, "alpha", one.alpha);
    set(node, "beta", one.beta);
    model.output("y");
    const Graph graph = read(model);
    EXPECT_EQ(ops_of(graph), one.ops);
    EXPECT_EQ(output_shape(graph), (Shape{4, 5}));
    if (one.alpha == 2 && one.bias) {
      EXPECT_EQ(graph.nodes[0].number("alpha", 0), 2);
      EXPECT_EQ(graph.nodes[0].number("beta", 0), 0.5);
    }
  }
}

TEST(Translate, ConvolutionsPadAsTheyAreTold) {
  struct Case {
    const char* pad;
    std::vector<std::int64_t> pads;
    Ops ops;
    Shape shape;
  };
  for (const Case& one :
       {Case{"NOTSET", {1, 1, 1, 1}, {"aten.conv2d"}, {2, 4, 4, 5}}, Case{"VALID", {}, {"aten.conv2d"}, {2, 4, 3, 4}},
        Case{"SAME_UPPER", {}, {"aten.constant_pad_nd", "aten.conv2d"}, {2, 4, 4, 5}},
        Case{"NOTSET", {0, 0, 1, 1}, {"aten.constant_pad_nd", "aten.conv2d"}, {2, 4, 4, 4}}}) {
    OneNode conv("Conv", {{2, 3, 8, 9}});
    conv.operand("w").model.floats("w", {4, 3, 3, 3});
    set(*conv.node, "auto_pad", std::string(one.pad));
    set(*conv.node, "strides", std::vector<std::int64_t>{2, 2});
    if (!one.pads.empty()) set(*conv.node, "pads", one.pads);
    const Graph graph = read(conv.model);
    EXPECT_EQ(ops_of(graph), one.ops) << one.pad;
    EXPECT_EQ(output_shape(graph), one.shape) << one.pad;
  }
}

TEST(Translate, PoolsRoundUpAsPyTorchDoes) {
  OneNode pool("MaxPool", {{1, 2, 6, 6}});
  set(*pool.node, "kernel_shape", std::vector<std::int64_t>{3, 3});
  set(*pool.node, "strides", std::vector<std::int64_t>{2, 2});
  set(*pool.node, "ceil_mode", std::int64_t{1});
  const Graph graph = read(pool.model);
  EXPECT_EQ(ops_of(graph), Ops{"aten.max_pool2d"});
  EXPECT_EQ(output_shape(graph), (Shape{1, 2, 3, 3}));
  EXPECT_TRUE(graph.nodes[0].boolean("ceil_mode", false));
}

TEST(Translate, ShapesThatAreComputed) {
  TestModel model;
  model.input("x", {"N", 4, 6});
  model.integers("zero", {0});
  model.integers("minus_one", {-1});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"batch"});
  model.node("Concat", {"batch", "minus_one"}, {"wanted"}).mutable_attribute();
  set(*model.proto().mutable_graph()->mutable_node(2), "axis", std::int64_t{0});
  model.node("Reshape", {"x", "wanted"}, {"y"});
  model.output("y");
  const Graph graph = read(model, {.batch = 5, .named = {}});
  EXPECT_EQ(ops_of(graph), Ops{"aten.view"});
  EXPECT_EQ(output_shape(graph), (Shape{5, 24}));
}

// In a file's tensors only what the file alone decides: what depends on the batch is made by the graph.
TEST(Translate, TensorsOfOpenSizesAreMadeByTheGraph) {
  TestModel model;
  model.input("x", {"N", 3});
  model.integers("zero", {0}, true);
  model.integers("one", {1}, true);
  model.integers("first", {0}, true);
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "first"}, {"batch"});
  model.node("Range", {"zero", "batch", "one"}, {"line"});
  set(model.node("Cast", {"line"}, {"floats"}), "to", std::int64_t{1});
  model.integers("behind", {1});
  model.node("Unsqueeze", {"floats", "behind"}, {"column"});
  model.node("Mul", {"x", "column"}, {"y"});
  model.output("y");
  const Graph graph = read(model, {.batch = 4, .named = {}});
  EXPECT_EQ(ops_of(graph), (Ops{"aten.arange.start_step", "aten._to_copy", "aten.unsqueeze", "aten.mul.Tensor"}));
  const auto tensors = make_onnx()->tensors(TestModel::path());
  ASSERT_TRUE(tensors.ok());
  EXPECT_FALSE(tensors->contains("column"));
}

// Where the file fixes the sizes, what follows from them is a constant, and its elements are computed again on demand.
TEST(Translate, TensorsOfFixedSizesAreConstants) {
  TestModel model;
  model.input("x", {2, 3, 7});
  model.node("Shape", {"x"}, {"shape"});
  model.integers("order", {2, 0, 1});
  model.node("Gather", {"shape", "order"}, {"turned"});
  model.node("Add", {"turned", "ids"}, {"z"});
  model.input("ids", {3}, 7);
  model.output("z");
  const Graph graph = read(model);
  EXPECT_EQ(kind_of(graph, "turned"), SourceKind::constant);
  const auto tensors = make_onnx()->tensors(TestModel::path());
  ASSERT_TRUE(tensors.ok());
  const Tensor& turned = tensors->at("turned");
  EXPECT_EQ(std::vector<std::int64_t>(turned.as<std::int64_t>().begin(), turned.as<std::int64_t>().end()),
            (std::vector<std::int64_t>{7, 2, 3}));
}

TEST(Translate, AReshapeThatMovesElementsCopiesThem) {
  TestModel model;
  model.input("x", {2, 3, 4, 5});
  set(model.node("Transpose", {"x"}, {"turned"}), "perm", std::vector<std::int64_t>{0, 2, 1, 3});
  model.integers("merged", {2, 4, 15});
  model.integers("split", {2, 4, 3, 5, 1});
  model.node("Reshape", {"turned", "merged"}, {"a"});
  model.node("Reshape", {"turned", "split"}, {"b"});
  model.output("a");
  model.output("b");
  EXPECT_EQ(ops_of(read(model)), (Ops{"aten.transpose.int", "aten.clone", "aten.view", "aten.view"}));
}

TEST(Translate, ListsAsAttributesAndAsOperands) {
  OneNode old("Unsqueeze", {{2, 3}});
  old.operand("axes").model.integers("axes", {0, -1});
  EXPECT_EQ(output_shape(read(old.model)), (Shape{1, 2, 3, 1}));
  OneNode mean("ReduceMean", {{2, 3, 4}});
  set(*mean.node, "axes", std::vector<std::int64_t>{-1});
  const Graph graph = read(mean.model);
  EXPECT_EQ(ops_of(graph), Ops{"aten.mean.dim"});
  EXPECT_EQ(graph.nodes[0].integers("dim"), Shape{2});
  EXPECT_EQ(output_shape(graph), (Shape{2, 3, 1}));
  OneNode later("ReduceMean", {{2, 3, 4}}, 18);
  later.operand("axes").model.integers("axes", {1, 2});
  set(*later.node, "keepdims", std::int64_t{0});
  EXPECT_EQ(output_shape(read(later.model)), Shape{2});
}

TEST(Translate, SplitsAndSlices) {
  TestModel model;
  model.input("x", {2, 10});
  model.integers("sizes", {3, 7});
  auto& split = model.node("Split", {"x", "sizes"}, {"a", "b"});
  set(split, "axis", std::int64_t{1});
  model.integers("starts", {1});
  model.integers("ends", {INT64_MAX});
  model.integers("axes", {1});
  model.integers("steps", {2});
  model.node("Slice", {"b", "starts", "ends", "axes", "steps"}, {"y"});
  model.output("a");
  model.output("y");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.split_with_sizes", "aten.slice.Tensor"}));
  EXPECT_EQ(graph.type(graph.outputs[1].value).shape, (Shape{2, 3}));
  EXPECT_EQ(graph.nodes[1].integer("end", 0), 6);
}

TEST(Translate, SequencesOfASplit) {
  TestModel model;
  model.input("x", {2, 6});
  model.integers("size", {2}, true);
  model.integers("last", {-1}, true);
  set(model.node("SplitToSequence", {"x", "size"}, {"pieces"}), "axis", std::int64_t{1});
  model.node("SequenceAt", {"pieces", "last"}, {"y"});
  model.output("y");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.split.Tensor", "aten.alias"}));
  EXPECT_EQ(output_shape(graph), (Shape{2, 2}));
}

TEST(Translate, BatchNormalization) {
  const auto model = [](bool training) {
    OneNode norm("BatchNormalization", {{2, 3, 4, 4}});
    for (const char* name : {"scale", "bias", "mean", "var"}) norm.operand(name).model.floats(name, {3});
    set(*norm.node, "momentum", 0.9);
    if (training) {
      set(*norm.node, "training_mode", std::int64_t{1});
      norm.node->add_output("mean_out");
      norm.node->add_output("var_out");
    }
    return norm.model;
  };
  Graph graph = read(model(false));
  EXPECT_EQ(ops_of(graph), Ops{"aten._native_batch_norm_legit_no_training"});
  EXPECT_EQ(kind_of(graph, "mean"), SourceKind::buffer);
  EXPECT_EQ(kind_of(graph, "scale"), SourceKind::parameter);
  EXPECT_EQ(graph.outputs.size(), 1U);
  for (const Graph& trained :
       {read(model(true)), read(model(false), {}, {.batch_statistics = true, .patterns = "auto"})}) {
    EXPECT_EQ(ops_of(trained), Ops{"aten._native_batch_norm_legit_functional"});
    EXPECT_EQ(trained.nodes[0].number("momentum", 0), 0.1);
    ASSERT_EQ(trained.outputs.size(), 3U);
    EXPECT_EQ(trained.outputs[1].kind, OutputKind::buffer_mutation);
    EXPECT_EQ(trained.outputs[1].target, "mean");
  }
}

TEST(Translate, AttentionOfThreeDimensions) {
  OneNode attention("Attention", {{2, 8, 12}, {2, 8, 6}, {2, 8, 6}}, 23);
  set(*attention.node, "q_num_heads", std::int64_t{4});
  set(*attention.node, "kv_num_heads", std::int64_t{2});
  set(*attention.node, "is_causal", std::int64_t{1});
  const Graph graph = read(attention.model);
  EXPECT_EQ(output_shape(graph), (Shape{2, 8, 12}));
  const Node* node = nullptr;
  for (const Node& one : graph.nodes) node = one.op == "aten.scaled_dot_product_attention" ? &one : node;
  ASSERT_NE(node, nullptr);
  EXPECT_TRUE(node->boolean("is_causal", false));
  EXPECT_TRUE(node->boolean("enable_gqa", false));
  EXPECT_EQ(graph.type(node->results[0]).shape, (Shape{2, 4, 8, 3}));
}

TEST(Translate, FunctionsOfTheModelAreInlined) {
  TestModel model;
  model.import_domain("mine", 1);
  auto* function = model.proto().add_functions();
  function->set_name("Twice");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  for (const auto& [op, in, out] : {std::tuple{"LeakyRelu", "a", "t"}, std::tuple{"Relu", "t", "b"}}) {
    auto* node = function->add_node();
    node->set_op_type(op);
    node->add_input(in);
    node->add_output(out);
    if (std::string(op) != "LeakyRelu") continue;
    auto* attribute = node->add_attribute();
    attribute->set_name("alpha");
    attribute->set_ref_attr_name("slope");
    attribute->set_type(::onnx::AttributeProto::FLOAT);
  }
  model.input("x", {2});
  set(model.node("Twice", {"x"}, {"y"}, "mine"), "slope", 0.3);
  set(model.node("Twice", {"y"}, {"z"}, "mine"), "slope", 0.2);
  model.output("z");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.leaky_relu", "aten.relu", "aten.leaky_relu", "aten.relu"}));
  EXPECT_EQ(graph.nodes[0].number("negative_slope", 0), 0.3);
  EXPECT_EQ(graph.nodes[2].number("negative_slope", 0), 0.2);
}

TEST(Translate, EveryValueHasANameOfItsOwn) {
  TestModel model;
  model.input("x", {2, 3});
  model.floats("c", {}, {2});
  model.node("Div", {"c", "x"}, {"y"}).clear_name();  // two nodes of ATen
  model.node("Softsign", {"y"}, {"y_1"}).set_name("x");
  model.output("y_1");
  const Graph graph = read(model);
  std::set<std::string> names;
  for (const Value& value : graph.values) EXPECT_TRUE(names.insert(value.name).second) << value.name;
  EXPECT_TRUE(names.contains("x") && names.contains("y") && names.contains("y_1"));
}

TEST(Translate, ALossIsMarked) {
  TestModel model;
  model.input("x", {4, 3});
  model.input("labels", {4}, 7);
  model.floats("w", {3, 5});
  model.node("MatMul", {"x", "w"}, {"scores"});
  model.node("SoftmaxCrossEntropyLoss", {"scores", "labels"}, {"loss"});
  model.output("loss");
  const Graph graph = read(model);
  EXPECT_EQ(ops_of(graph), (Ops{"aten.linear", "aten.cross_entropy_loss"}));
  EXPECT_EQ(graph.outputs[0].kind, OutputKind::loss);
  EXPECT_EQ(graph.values[graph.outputs[0].value].name, "loss");
}

TEST(Sources, MasksAndFoldedTablesAreTold) {
  TestModel model(17, "pytorch");
  model.input("x", {2, 4, 8, 8});
  model.floats("val_7", {1, 1, 8, 8});       // alike for all heads, before a softmax
  model.floats("relative_1", {1, 4, 8, 8});  // differs between them
  model.floats("cos_2", {8, 8});             // multiplied, and of an exporter's name
  model.floats("embedding_1", {1, 8, 8});    // added
  model.floats("layer.scale", {8});
  model.floats("m.temperature", {}, {2});
  model.node("Mul", {"x", "cos_2"}, {"a"});
  model.node("Mul", {"a", "layer.scale"}, {"b"});
  model.node("Add", {"b", "relative_1"}, {"c"});
  model.node("Add", {"c", "val_7"}, {"d"});
  model.node("Softmax", {"d"}, {"e"});
  model.node("Add", {"e", "embedding_1"}, {"f"});
  model.node("Div", {"f", "m.temperature"}, {"y"});
  model.output("y");
  const Graph graph = read(model);
  EXPECT_EQ(kind_of(graph, "val_7"), SourceKind::constant);
  EXPECT_EQ(kind_of(graph, "cos_2"), SourceKind::constant);
  for (const char* name : {"relative_1", "embedding_1", "layer.scale", "m.temperature"})
    EXPECT_EQ(kind_of(graph, name), SourceKind::parameter) << name;
}

TEST(Modules, ComeFromScopesOrFromNames) {
  EXPECT_EQ(module_of_scopes("['', 'm', 'm.layers.0', 'linear']"), "m.layers.0");
  EXPECT_EQ(module_of_scopes("['']"), "");
  EXPECT_EQ(module_of_name("/m/layers/layers.0/attn/MatMul"), "m.layers.0.attn");
  EXPECT_EQ(module_of_name("MatMul_3"), "");
}

}  // namespace
}  // namespace meshwright::onnx
