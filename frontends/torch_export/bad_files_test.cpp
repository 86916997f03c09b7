// Each way in which a file can be bad, and the sentence that the user sees. The files are made here.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "torch_export.h"

namespace meshwright::torch_export {
namespace {

class BadFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            ("meshwright_" + std::to_string(getpid()) + "_" + info->name() + ".pt2");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write_bytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  void write_zip(const std::string& name, const std::string& text, int compression = ZIP_CM_STORE) {
    std::filesystem::remove(path_);
    zip_t* archive = zip_open(path_.c_str(), ZIP_CREATE, nullptr);
    ASSERT_NE(archive, nullptr);
    zip_source_t* source = zip_source_buffer(archive, text.data(), text.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    ASSERT_GE(index, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), compression, 0);
    ASSERT_EQ(zip_close(archive), 0);
  }

  // A model of one input, x: float32[2, 3], and the given nodes.
  std::string model(const std::string& nodes, const std::string& tensors = "", const std::string& output = "x",
                    int major = 8) {
    return R"({"schema_version": {"major": )" + std::to_string(major) +
           R"(, "minor": 1}, "graph_module": {"graph": {"nodes": [)" + nodes + R"(], "tensor_values": {"x": )" +
           tensor("7", R"({"as_int": 2}, {"as_int": 3})") + tensors +
           R"(}}, "signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
            "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": ")" +
           output + R"("}}}}]}}})";
  }
  static std::string tensor(const std::string& dtype, const std::string& sizes) {
    return R"({"dtype": )" + dtype + R"(, "sizes": [)" + sizes + R"(], "requires_grad": false})";
  }
  static std::string node(const std::string& target, const std::string& argument = R"({"as_tensor": {"name": "x"}})") {
    return R"({"target": ")" + target + R"(", "name": "y", "inputs": [{"name": "self", "arg": )" + argument +
           R"(}], "outputs": [{"as_tensor": {"name": "y"}}], "metadata": {}})";
  }
  static std::string y() { return R"(, "y": )" + tensor("7", R"({"as_int": 2}, {"as_int": 3})"); }

  // The message without the file's name, which must come first.
  std::string message() {
    const auto graph = make_torch_export()->read(path_.string());
    if (graph.ok()) return "";
    EXPECT_EQ(graph.error().code, ErrorCode::bad_input) << graph.error().message;
    EXPECT_TRUE(graph.error().message.starts_with(path_.string() + ": ")) << graph.error().message;
    return graph.error().message.substr(std::min(graph.error().message.size(), path_.string().size() + 2));
  }
  std::string message_for_model(const std::string& text) {
    write_zip("m/models/model.json", text);
    return message();
  }

  std::filesystem::path path_;
};

TEST_F(BadFiles, AGoodOneReads) {
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu.default"), y(), "y")), "");
}

// A hundred megabytes of blanks, in a hundred kilobytes.
TEST_F(BadFiles, ABombIsNotUnpacked) {
  write_zip("m/models/model.json", std::string(100'000'000, ' '), ZIP_CM_DEFLATE);
  EXPECT_NE(message().find("which no export does"), std::string::npos) << message();
}

// The directory at the archive's end says 8 bytes less, or 8 more, than are stored.
TEST_F(BadFiles, AnEntryOfAnotherSizeThanDeclared) {
  const std::string good = model(node("torch.ops.aten.relu.default"), y(), "y");
  for (const int change : {-8, 8}) {
    write_zip("m/models/model.json", good, ZIP_CM_DEFLATE);
    std::string bytes = (std::ostringstream() << std::ifstream(path_, std::ios::binary).rdbuf()).str();
    const auto size = static_cast<std::uint32_t>(good.size()), other = size + static_cast<std::uint32_t>(change);
    const std::string written(reinterpret_cast<const char*>(&size), 4);
    for (std::size_t at = bytes.find(written); at != std::string::npos; at = bytes.find(written, at + 1)) bytes.replace(at, 4, reinterpret_cast<const char*>(&other), 4);
    write_bytes(bytes);
    EXPECT_NE(message(), "") << change;
  }
}

TEST_F(BadFiles, DeepJson) {
  EXPECT_EQ(message_for_model(std::string(100'000, '[')), "models/model.json is nested more than 500 deep");
  const std::string deep = std::string(400, '[') + std::string(400, ']');
  EXPECT_NE(message_for_model(model(node("torch.ops.aten.relu.default", R"({"as_int": )" + deep + "}"), y(), "y")), "");
}

TEST_F(BadFiles, OpsOfThePlannersOwn) {
  EXPECT_EQ(message_for_model(model(node("torch.ops.meshwright.experts.default"), y(), "y")),
            "node 'y': 'meshwright.experts' is an op of the planner's own; no model has it");
}

TEST_F(BadFiles, CallsThatPyTorchWouldNotMake) {
  EXPECT_NE(message_for_model(model(node("torch.ops.aten.relu.default", R"({"as_none": true})"), y(), "y")).find("its tensor 'self' is missing"), std::string::npos);
  EXPECT_NE(message_for_model(model(node("torch.ops.aten.t.default"), y(), "y")).find("what it computes is [3, 2]"), std::string::npos);
}

TEST_F(BadFiles, SpecialFiles) {
  const auto graph = make_torch_export()->read("/dev/zero");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "/dev/zero: is no regular file; a model is read from one");
}

TEST_F(BadFiles, Missing) { EXPECT_EQ(message(), "there is no such file"); }

TEST_F(BadFiles, NotAZip) {
  write_bytes("this is no archive, though long enough to be one; it goes on for a while");
  EXPECT_EQ(message(), "this is not a zip archive, or it was cut short; write it with torch.export.save");
}

TEST_F(BadFiles, Empty) {
  write_bytes("");
  EXPECT_NE(message(), "");
}

TEST_F(BadFiles, NoModel) {
  write_zip("m/models/other.json", "{}");
  EXPECT_EQ(message(), "the archive has no models/model.json; write it with torch.export.save of torch 2.6 or newer");
}

TEST_F(BadFiles, TruncatedJson) {
  const std::string whole = model("");
  EXPECT_EQ(message_for_model(whole.substr(0, whole.size() / 2)),
            "models/model.json is not valid JSON, or it was cut short; export the model again");
}

TEST_F(BadFiles, OtherSchema) {
  EXPECT_EQ(message_for_model(model("", "", "x", 9)),
            "the file has export schema 9, and this program reads schema 8; export the model again with torch 2.15, which writes it");
}

TEST_F(BadFiles, InPlace) {
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu_.default"), y())),
            "node 'y': 'aten.relu_' works in place; call run_decompositions({}) on the exported program, or write the "
            "file with meshwright.export");
}

TEST_F(BadFiles, DataDependentShape) {
  const std::string open = R"(, "y": )" + tensor("5", R"({"as_expr": {"expr_str": "u0"}}, {"as_int": 2})");
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.nonzero.default"), open)),
            "node 'y': value 'y' has the size 'u0', which depends on the data; every shape must be a fixed number, so "
            "export without operations such as nonzero, item or a boolean mask");
}

TEST_F(BadFiles, DynamicShape) {
  const std::string open = R"(, "y": )" + tensor("7", R"({"as_expr": {"expr_str": "s0"}})");
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu.default"), open)),
            "node 'y': value 'y' has the size 's0', which was left open as a dynamic dimension, and nothing says how large "
            "it is; export with dynamic dimensions of the inputs alone, or without dynamic_shapes");
}

// As torch 2.15 writes it. The u of True is no symbol.
TEST_F(BadFiles, DynamicShapeInSympyText) {
  const std::string expression =
      R"json({"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s17', positive=True))"}})json";
  EXPECT_EQ(
      message_for_model(model(node("torch.ops.aten.relu.default"), R"(, "y": )" + tensor("7", expression))),
      "node 'y': value 'y' has the size 'Mul(Integer(2), s17)', which was left open as a dynamic dimension, and nothing "
      "says how large it is; export with dynamic dimensions of the inputs alone, or without dynamic_shapes");
}

TEST_F(BadFiles, NumberFromData) {
  const std::string item = R"({"target": "torch.ops.aten.item.default", "name": "item", "inputs": [],
                               "outputs": [{"as_sym_int": {"as_name": "item"}}], "metadata": {}})";
  const std::string numbers =
      R"json(}, "sym_int_values": {"item": {"as_expr": {"expr_str": "Symbol('u0', integer=True)"}})json";
  EXPECT_EQ(message_for_model(model(item, numbers)),
            "node 'item': value 'item' has the size 'u0', which depends on the data; every shape must be a fixed "
            "number, so export without operations such as nonzero, item or a boolean mask");
}

TEST_F(BadFiles, SymbolicArgument) {
  const std::string argument = R"({"as_sym_int": {"as_name": "u0"}})";
  EXPECT_NE(message_for_model(model(node("torch.ops.aten.arange.default", argument), y())).find("depends on the data"),
            std::string::npos);
}

TEST_F(BadFiles, HigherOrder) {
  EXPECT_NE(message_for_model(model(node("torch.ops.higher_order.cond"), y())).find("higher-order operator"),
            std::string::npos);
}

TEST_F(BadFiles, Subgraph) {
  const std::string argument = R"({"as_graph": {"name": "true_graph_0", "graph": {}}})";
  EXPECT_NE(message_for_model(model(node("torch.ops.mylib.loop.default", argument), y())).find("as_graph"),
            std::string::npos);
}

TEST_F(BadFiles, UnknownDtype) {
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu.default"), R"(, "y": )" + tensor("29", ""))),
            "node 'y': value 'y' has a dtype that is not supported (the export schema's code 29)");
}

TEST_F(BadFiles, HugeShape) {
  const std::string huge = R"(, "y": )" + tensor("7", R"({"as_int": 4611686018427387904}, {"as_int": 8})");
  EXPECT_NE(message_for_model(model(node("torch.ops.aten.relu.default"), huge)).find("impossibly large"),
            std::string::npos);
}

TEST_F(BadFiles, UndefinedOperandAndOutput) {
  const std::string argument = R"({"as_tensor": {"name": "z"}})";
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu.default", argument), y())),
            "node 'y': argument 'self' uses 'z', which nothing before it defines");
  EXPECT_EQ(message_for_model(model("", "", "z")), "output 'z' is not defined");
}

TEST_F(BadFiles, DefinedTwice) {
  const std::string twice = node("torch.ops.aten.relu.default") + "," + node("torch.ops.aten.relu.default");
  EXPECT_NE(message_for_model(model(twice, y())).find("defined twice"), std::string::npos);
}

TEST_F(BadFiles, WrongStructureNamesTheNode) {
  EXPECT_EQ(message_for_model(model(node("torch.ops.aten.relu.default", R"({"as_ints": 3})"), y())),
            "models/model.json does not have the structure of torch.export's schema 8: node 'y': a list was expected, "
            "not 3");
}

// Every prefix and every single replaced token of a good file gives a sentence or a graph, never a crash.
TEST_F(BadFiles, DamageNeverCrashes) {
  const std::string good = model(node("torch.ops.aten.relu.default"), y(), "y");
  for (const std::string replacement : {"null", "-1", "[]", "{}", "\"\"", "1e999"}) {
    std::size_t position = 0;
    while ((position = good.find_first_of("{[\"123456789", position)) != std::string::npos) {
      const char open = good[position];
      std::size_t end = position + 1;
      if (open == '"') end = good.find('"', position + 1) + 1;
      if (open == '{' || open == '[') {
        for (int depth = 1; depth > 0; ++end) {
          depth += (good[end] == '{' || good[end] == '[') ? 1 : (good[end] == '}' || good[end] == ']') ? -1 : 0;
        }
      }
      std::string damaged = good;
      message_for_model(damaged.replace(position, end - position, replacement));
      ++position;
    }
  }
}

}  // namespace
}  // namespace meshwright::torch_export
