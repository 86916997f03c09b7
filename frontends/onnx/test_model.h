// Small .onnx files for tests.
#pragma once

#include <gtest/gtest.h>
#include <onnx.pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "onnx.h"

namespace meshwright::onnx::test {

using Size = std::variant<int, std::string>;

class TestModel {
 public:
  explicit TestModel(int opset = 17, const std::string& producer = "test") {
    proto_.set_ir_version(8);
    proto_.set_producer_name(producer);
    import_domain("", opset);
    proto_.mutable_graph()->set_name("test");
  }

  void import_domain(const std::string& domain, int version) {
    auto* import = proto_.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }

  void input(const std::string& name, const std::vector<Size>& shape, int type = 1) {
    declare(*proto_.mutable_graph()->add_input(), name, shape, type);
  }
  void output(const std::string& name) { proto_.mutable_graph()->add_output()->set_name(name); }
  void typed(const std::string& name, const std::vector<Size>& shape, int type = 1) {
    declare(*proto_.mutable_graph()->add_value_info(), name, shape, type);
  }

  void floats(const std::string& name, const std::vector<int>& shape, const std::vector<float>& values = {}) {
    auto* tensor = proto_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(1);
    int elements = 1;
    for (const int size : shape) tensor->add_dims(size), elements *= size;
    for (int i = 0; i < elements; ++i)
      tensor->add_float_data(values.empty() ? 0.25F * static_cast<float>(i + 1) : values[static_cast<std::size_t>(i)]);
  }

  void integers(const std::string& name, const std::vector<std::int64_t>& values, bool scalar = false) {
    auto* tensor = proto_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(7);
    if (!scalar) tensor->add_dims(static_cast<std::int64_t>(values.size()));
    std::string raw(values.size() * 8, '\0');
    std::memcpy(raw.data(), values.data(), raw.size());
    tensor->set_raw_data(raw);
  }

  ::onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const std::string& domain = "") {
    auto* node = proto_.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_domain(domain);
    node->set_name("the_" + op);
    for (const std::string& name : inputs) node->add_input(name);
    for (const std::string& name : outputs) node->add_output(name);
    return *node;
  }

  ::onnx::ModelProto& proto() { return proto_; }

  // Writes it and reads it back.
  [[nodiscard]] Result<Graph> read(const OpenDimensions& open = {}, const Options& options = {}) const {
    return make_onnx(options)->read(write(), open);
  }
  [[nodiscard]] std::string error(const OpenDimensions& open = {}) const {
    const Result<Graph> graph = read(open);
    if (graph.ok()) return "";
    EXPECT_EQ(graph.error().code, ErrorCode::bad_input) << graph.error().message;
    const std::string start = path() + ": ";
    EXPECT_TRUE(graph.error().message.starts_with(start)) << graph.error().message;
    return graph.error().message.substr(std::min(start.size(), graph.error().message.size()));
  }
  [[nodiscard]] std::string write() const {
    std::ofstream file(path(), std::ios::binary);
    proto_.SerializeToOstream(&file);
    return path();
  }

  static const std::filesystem::path& folder() {
    static const struct Folder {
      std::filesystem::path path =
          std::filesystem::temp_directory_path() / ("meshwright-onnx-" + std::to_string(::getpid()));
      Folder() { std::filesystem::create_directories(path); }
      ~Folder() { std::filesystem::remove_all(path); }
    } made;
    return made.path;
  }
  static std::string path() { return (folder() / "model.onnx").string(); }

 private:
  static void declare(::onnx::ValueInfoProto& value, const std::string& name, const std::vector<Size>& shape,
                      int type) {
    value.set_name(name);
    auto* tensor = value.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const Size& size : shape) {
      auto* dimension = tensor->mutable_shape()->add_dim();
      if (const int* number = std::get_if<int>(&size))
        dimension->set_dim_value(*number);
      else
        dimension->set_dim_param(std::get<std::string>(size));
    }
  }

  ::onnx::ModelProto proto_;
};

inline void set(::onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}
inline void set(::onnx::NodeProto& node, const std::string& name, double value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}
inline void set(::onnx::NodeProto& node, const std::string& name, const std::string& value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::STRING);
  attribute->set_s(value);
}
inline void set(::onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute->add_ints(value);
}

inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

// The kind of the source of that name; a failure if there is none.
inline SourceKind kind_of(const Graph& graph, const std::string& name) {
  for (const Source& source : graph.sources) {
    if (source.names.front() == name) return source.kind;
  }
  ADD_FAILURE() << "no source " << name;
  return SourceKind::user_input;
}

}  // namespace meshwright::onnx::test
