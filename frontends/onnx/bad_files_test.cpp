// What is refused, and in which words.
#include <gmock/gmock.h>

#include "meshwright/log.h"
#include "test_model.h"

namespace meshwright::onnx {
namespace {

using test::set;
using test::TestModel;
using testing::HasSubstr;

std::string message_for_bytes(const std::string& bytes) {
  std::ofstream(TestModel::path(), std::ios::binary) << bytes;
  const Result<Graph> graph = make_onnx()->read(TestModel::path());
  return graph.ok() ? "" : graph.error().message.substr(TestModel::path().size() + 2);
}

TestModel relu(int opset = 17) {
  TestModel model(opset);
  model.input("x", {2, 3});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  return model;
}

TEST(BadFiles, AGoodOneReads) { EXPECT_EQ(relu().error(), ""); }

TEST(BadFiles, Missing) {
  const Result<Graph> graph = make_onnx()->read("/nowhere/model.onnx");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "/nowhere/model.onnx: can't be opened; give the path of an .onnx file");
}

TEST(BadFiles, NoProtobufOrNoModel) {
  const std::string not_read = "is not an ONNX model, or was cut short: its protobuf can't be read; export it again";
  EXPECT_EQ(message_for_bytes("this is text and no model at all, and long enough to be one"), not_read);
  EXPECT_THAT(message_for_bytes(""), HasSubstr("is not an ONNX model, or was cut short"));
  EXPECT_THAT(message_for_bytes(std::string(64, '\0')), HasSubstr("is not an ONNX model"));
}

TEST(BadFiles, EveryPrefixIsRefusedAndNoneCrashes) {
  TestModel model = relu();
  model.floats("w", {3, 2});
  model.node("MatMul", {"y", "w"}, {"z"});
  const std::string whole = model.proto().SerializeAsString();
  ASSERT_EQ(message_for_bytes(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A prefix may end between two fields of the model, with the opset still to come: it is never read as whole.
    EXPECT_NE(message_for_bytes(whole.substr(0, length)), "") << length << " of " << whole.size();
  }
}

TEST(BadFiles, NoByteChangedCrashes) {
  TestModel model = relu();
  model.integers("shape", {0, -1});
  model.node("Reshape", {"y", "shape"}, {"z"});
  const std::string whole = model.proto().SerializeAsString();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int change : {1, 64, 255}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ change);
      (void)message_for_bytes(changed);
    }
  }
}

TEST(BadFiles, Opsets) {
  EXPECT_EQ(relu(12).error(),
            "is of opset 12, and 13 to 23 are read; export it with opset_version=23, or convert it with "
            "onnx.version_converter");
  EXPECT_THAT(relu(24).error(), HasSubstr("is of opset 24"));
  for (int opset = 13; opset <= 23; ++opset) EXPECT_EQ(relu(opset).error(), "") << opset;
}

TEST(BadFiles, UnsupportedOps) {
  TestModel model = relu();
  model.node("Hardmax", {"y"}, {"z"});
  model.output("z");
  EXPECT_EQ(model.error(), "node 'the_Hardmax' (Hardmax): 'Hardmax' of opset 17 is not supported");
}

TEST(BadFiles, ControlFlow) {
  TestModel model = relu();
  auto* attribute = model.node("If", {"y"}, {"z"}).add_attribute();
  attribute->set_name("then_branch");
  attribute->set_type(::onnx::AttributeProto::GRAPH);
  attribute->mutable_g();
  EXPECT_EQ(model.error(),
            "node 'the_If' (If): it holds a graph of its own, and control flow is not supported; export the model "
            "without it");
}

TEST(BadFiles, OpenDimensionsNameTheSettingThatBindsThem) {
  TestModel model;
  model.input("ids", {"batch", "sequence"});
  model.node("Relu", {"ids"}, {"y"});
  model.output("y");
  EXPECT_EQ(model.error(),
            "input 'ids': its dimension 0, 'batch', is open; give it a size with --set model.batch=SIZE, or --set "
            "model.dimensions=\"batch=SIZE\"");
  EXPECT_EQ(model.error({.batch = 8, .named = {}}),
            "input 'ids': its dimension 1, 'sequence', is open; give it a size with --set "
            "model.dimensions=\"sequence=SIZE\"");
  EXPECT_EQ(model.error({.batch = 8, .named = {{"seqence", 4}}}), model.error({.batch = 8, .named = {}}));
  EXPECT_EQ(model.error({.batch = 8, .named = {{"sequence", 4}, {"width", 2}}}),
            "no input has an open dimension 'width', which [model] dimensions gives the size 2");
  const Result<Graph> graph = model.read({.batch = 8, .named = {{"sequence", 4}}});
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->values[graph->outputs[0].value].type.shape, (std::vector<std::int64_t>{8, 4}));
}

TEST(BadFiles, MissingShape) {
  TestModel model = relu();
  model.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(model.error(), "input 'x' has no shape in the file; run onnx.shape_inference over it, or export it again");
}

TEST(BadFiles, ShapesFromData) {
  TestModel model = relu();
  model.input("n", {1}, 7);
  model.node("Reshape", {"y", "n"}, {"z"});
  EXPECT_EQ(model.error(),
            "node 'the_Reshape' (Reshape): its operand 'n' decides a shape and is computed from the data; every shape "
            "must be a fixed number");
}

TEST(BadFiles, DataDependentResults) {
  TestModel model = relu();
  model.node("NonZero", {"y"}, {"z"});
  EXPECT_THAT(model.error(), HasSubstr("node 'the_NonZero' (NonZero): the shape of its result depends on the data"));
}

TEST(BadFiles, ShapesThatDoNotFit) {
  TestModel model = relu();
  model.floats("w", {4, 2});
  model.node("MatMul", {"y", "w"}, {"z"});
  EXPECT_EQ(model.error(), "node 'the_MatMul' (MatMul): a float32[2, 3] can't be multiplied by a float32[4, 2]");
  TestModel reshape = relu();
  reshape.integers("s", {4, -1});
  reshape.node("Reshape", {"y", "s"}, {"z"});
  EXPECT_EQ(reshape.error(), "node 'the_Reshape' (Reshape): a float32[2, 3] can't be reshaped to [4, -1]");
}

TEST(BadFiles, UndefinedValues) {
  TestModel model;
  model.input("x", {2});
  model.node("Add", {"x", "nothing"}, {"y"});
  model.output("y");
  EXPECT_EQ(model.error(), "node 'the_Add' (Add): it uses 'nothing', which nothing before it defines");
}

TEST(BadFiles, TypesThatNobodyHas) {
  TestModel model;
  model.input("x", {2}, 12);
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  EXPECT_EQ(model.error(), "input 'x': its type, uint32, is not supported");
}

TEST(BadFiles, NamesThatAreNoText) {
  for (const char* name : {"\xff", "a\xe4z", "\xc3", "two\nlines"}) {
    TestModel model = relu();
    model.proto().mutable_graph()->mutable_node(0)->set_name(name);
    EXPECT_EQ(model.error(), "has a name that is no text; the file is damaged, or was written wrong");
  }
  TestModel model = relu();
  model.proto().mutable_graph()->mutable_node(0)->set_name("größe_大きさ");
  EXPECT_EQ(model.error(), "");
}

TEST(BadFiles, InitializersOfAnotherSize) {
  TestModel model = relu();
  model.floats("w", {4});
  model.proto().mutable_graph()->mutable_initializer(0)->set_dims(0, 5);
  EXPECT_EQ(model.error(),
            "initializer 'w' is a float32[5] of 20 bytes, and 16 are stored; the file was written wrong");
}

TEST(UnknownDomains, PassThroughWithTheTypesOfTheFile) {
  TestModel model = relu();
  model.import_domain("com.acme", 1);
  set(model.node("Foo", {"y"}, {"z"}, "com.acme"), "alpha", 0.5);
  model.output("z");
  EXPECT_THAT(model.error(),
              HasSubstr("node 'the_Foo' (com.acme::Foo): the file does not say the type of its result 'z'"));
  model.typed("z", {2, 7});
  const Result<Graph> graph = model.read();
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const Node& node = graph->nodes.back();
  EXPECT_EQ(node.op, "com.acme::Foo");
  EXPECT_EQ(node.number("alpha", 0), 0.5);
  EXPECT_EQ(graph->type(node.results[0]).shape, (std::vector<std::int64_t>{2, 7}));
}

class ExternalData : public testing::Test {
 protected:
  ExternalData() {
    model_.input("x", {2, 3});
    model_.floats("w", {3, 2});
    model_.node("MatMul", {"x", "w"}, {"y"});
    model_.output("y");
    auto* tensor = model_.proto().mutable_graph()->mutable_initializer(0);
    tensor->clear_float_data();
    tensor->set_data_location(::onnx::TensorProto::EXTERNAL);
    place("location", "w.bin");
    place("offset", "8");
    place("length", "24");
    std::filesystem::remove(TestModel::folder() / "w.bin");
  }
  void place(const std::string& key, const std::string& value) {
    auto* entry = model_.proto().mutable_graph()->mutable_initializer(0)->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  void write_floats(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    std::ofstream(TestModel::folder() / "w.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(count * 4));
  }
  TestModel model_;
};

TEST_F(ExternalData, IsNotNeededForTheGraph) {
  EXPECT_EQ(model_.error(), "");
  const auto tensors = make_onnx()->tensors(model_.write());
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_FALSE(tensors->contains("w"));
}

TEST_F(ExternalData, IsReadFromItsPlaceAndTurnedAsTheGraphHasIt) {
  write_floats(8);
  const auto tensors = make_onnx()->tensors(model_.write());
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  const Tensor& weight = tensors->at("w");
  EXPECT_EQ(weight.shape(), (std::vector<std::int64_t>{2, 3}));  // of linear
  EXPECT_EQ(std::vector<float>(weight.as<float>().begin(), weight.as<float>().end()),
            (std::vector<float>{2, 4, 6, 3, 5, 7}));
  const Result<Graph> graph = model_.read();
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(test::ops_of(*graph), std::vector<std::string>{"aten.linear"});
  EXPECT_EQ(graph->type(graph->nodes[0].operands[1].value), weight.type());
}

TEST_F(ExternalData, ThatIsCutShort) {
  write_floats(7);
  const auto tensors = make_onnx()->tensors(model_.write());
  ASSERT_FALSE(tensors.ok());
  EXPECT_THAT(tensors.error().message, HasSubstr("tensor 'w' goes beyond the end of"));
}

TEST_F(ExternalData, ThatIsMissingIsSaid) {
  static std::string said;
  said.clear();
  set_log_sink([](LogLevel, std::string_view, std::string_view message) { said += message; });
  EXPECT_EQ(model_.error(), "");
  set_log_sink(nullptr);
  EXPECT_THAT(said, HasSubstr("1 of the model's tensors lie in files that are not there, the first 'w' in 'w.bin'"));
}

TEST_F(ExternalData, ThatALinkLeadsOutOfTheFolderIsRefused) {
  std::filesystem::create_symlink("/etc/hostname", TestModel::folder() / "w.bin");
  EXPECT_THAT(model_.error(), HasSubstr("outside of the model's folder"));
  std::filesystem::remove(TestModel::folder() / "w.bin");
}

TEST_F(ExternalData, OutsideOfTheFolderIsNotRead) {
  write_floats(8);
  place("location", "../" + TestModel::folder().filename().string() + "/w.bin");
  const auto tensors = make_onnx()->tensors(model_.write());
  ASSERT_FALSE(tensors.ok());
  EXPECT_THAT(tensors.error().message, HasSubstr("outside of the model's folder"));
}

}  // namespace
}  // namespace meshwright::onnx
