// The one place that knows protobuf.
#include <onnx.pb.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <list>

#include "model.h"
#include "onnx_types.h"

namespace meshwright::onnx {

namespace {

using google::protobuf::RepeatedPtrField;

constexpr const char* kScopes =
    "pkg.torch.onnx.name_scopes";  // where PyTorch's exporter writes the modules around a node

struct Storage {
  ::onnx::ModelProto proto;
  std::list<std::string> converted;  // typed data as bytes; a list, so that views stay good
};

template <class From, class To>
std::string bytes_of(const google::protobuf::RepeatedField<From>& data) {
  std::string bytes(static_cast<std::size_t>(data.size()) * sizeof(To), '\0');
  for (int i = 0; i < data.size(); ++i) {
    const To element = static_cast<To>(data[i]);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(To), &element, sizeof(To));
  }
  return bytes;
}

// Fields that hold elements one by one, as older writers do.
std::string typed_bytes(const ::onnx::TensorProto& tensor, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return bytes_of<float, float>(tensor.float_data());
    case DType::complex64:
      return bytes_of<float, float>(tensor.float_data());
    case DType::float64:
      return bytes_of<double, double>(tensor.double_data());
    case DType::complex128:
      return bytes_of<double, double>(tensor.double_data());
    case DType::int64:
      return bytes_of<std::int64_t, std::int64_t>(tensor.int64_data());
    case DType::int32:
      return bytes_of<std::int32_t, std::int32_t>(tensor.int32_data());
    case DType::int16:
      return bytes_of<std::int32_t, std::int16_t>(tensor.int32_data());
    case DType::float16:
    case DType::bfloat16:
      return bytes_of<std::int32_t, std::uint16_t>(tensor.int32_data());
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return bytes_of<std::int32_t, std::int8_t>(tensor.int32_data());
  }
  return "";
}

class Parser {
 public:
  explicit Parser(Storage& storage) : storage_(storage) {}

  Result<Model> run() {
    const ::onnx::ModelProto& proto = storage_.proto;
    if (!has_readable_names(proto))
      return bad_input("has a name that is no text; the file is damaged, or was written wrong");
    if (Status status = check_opset(proto); !status) return status.error();
    model_.producer = proto.producer_name();
    const ::onnx::GraphProto& graph = proto.graph();
    if (graph.sparse_initializer_size() > 0)
      return bad_input("it has sparse initializers, which are not supported; store them dense");
    for (const ::onnx::TensorProto& tensor : graph.initializer()) {
      Result<StoredTensor> stored = read_tensor(tensor, "initializer '" + tensor.name() + "'");
      if (!stored) return stored.error();
      if (!model_.initializers.emplace(tensor.name(), std::move(*stored)).second) {
        return bad_input("two initializers are named '" + tensor.name() + "'");
      }
    }
    for (const ::onnx::ValueInfoProto& value : graph.input()) {
      if (!model_.initializers.contains(value.name())) model_.inputs.push_back({value.name(), read_type(value.type())});
    }
    for (const ::onnx::ValueInfoProto& value : graph.output())
      model_.outputs.push_back({value.name(), read_type(value.type())});
    for (const ::onnx::ValueInfoProto& value : graph.value_info()) model_.types[value.name()] = read_type(value.type());
    for (const ModelValue& value : model_.outputs) model_.types.emplace(value.name, value.type);
    if (Status status = read_nodes(graph.node(), model_.nodes); !status) return status.error();
    for (const ::onnx::FunctionProto& function : proto.functions()) {
      if (Status status = read_function(function); !status) return status.error();
    }
    return std::move(model_);
  }

 private:
  static bool has_readable_names(const ::onnx::ModelProto& proto) {
    bool readable = is_text(proto.producer_name());
    const auto see = [&](const std::string& name) { readable = readable && is_text(name); };
    const auto see_node = [&](const ::onnx::NodeProto& node) {
      for (const std::string* name : {&node.name(), &node.op_type(), &node.domain()}) see(*name);
      for (const std::string& name : node.input()) see(name);
      for (const std::string& name : node.output()) see(name);
      for (const ::onnx::AttributeProto& attribute : node.attribute()) {
        see(attribute.name());
        see(attribute.ref_attr_name());
      }
      for (const ::onnx::StringStringEntryProto& entry : node.metadata_props()) {
        if (entry.key() == kScopes) see(entry.value());
      }
    };
    const auto see_type = [&](const ::onnx::ValueInfoProto& value) {
      see(value.name());
      for (const auto& dimension : value.type().tensor_type().shape().dim()) see(dimension.dim_param());
    };
    for (const ::onnx::NodeProto& node : proto.graph().node()) see_node(node);
    for (const ::onnx::FunctionProto& function : proto.functions()) {
      see(function.name());
      for (const ::onnx::NodeProto& node : function.node()) see_node(node);
    }
    for (const auto* values : {&proto.graph().input(), &proto.graph().output(), &proto.graph().value_info()}) {
      for (const ::onnx::ValueInfoProto& value : *values) see_type(value);
    }
    for (const ::onnx::TensorProto& tensor : proto.graph().initializer()) {
      see(tensor.name());
      for (const ::onnx::StringStringEntryProto& entry : tensor.external_data()) see(entry.value());
    }
    return readable;
  }

  Status check_opset(const ::onnx::ModelProto& proto) {
    for (const ::onnx::OperatorSetIdProto& import : proto.opset_import()) {
      if (import.domain().empty() || import.domain() == "ai.onnx") model_.opset = import.version();
    }
    if (!proto.has_graph() || !proto.has_ir_version() || proto.opset_import_size() == 0) {
      return bad_input("is not an ONNX model, or was cut short: it has no graph or no opset; export it again");
    }
    if (model_.opset >= kFirstOpset && model_.opset <= kLastOpset) return Done{};
    return bad_input("is of opset " + std::to_string(model_.opset) + ", and " + std::to_string(kFirstOpset) + " to " +
                     std::to_string(kLastOpset) + " are read; export it with opset_version=" +
                     std::to_string(kLastOpset) + ", or convert it with onnx.version_converter");
  }

  Result<StoredTensor> read_tensor(const ::onnx::TensorProto& tensor, const std::string& where) {
    StoredTensor stored;
    stored.name = tensor.name();
    const auto dtype = dtype_of(tensor.data_type());
    if (!dtype)
      return bad_input(where + " is of the type " + type_name(tensor.data_type()) + ", which is not supported");
    stored.type.dtype = *dtype;
    std::int64_t bytes = size_bytes(*dtype);
    for (const std::int64_t size : tensor.dims()) {
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
        return bad_input(where + " has a negative or an impossibly large size");
      stored.type.shape.push_back(size);
    }
    if (tensor.data_location() == ::onnx::TensorProto::EXTERNAL) {
      Result<ExternalPlace> place = read_place(tensor, where);
      if (!place) return place.error();
      stored.external = std::move(*place);
      return stored;
    }
    stored.bytes = tensor.raw_data();
    if (!tensor.has_raw_data()) stored.bytes = storage_.converted.emplace_back(typed_bytes(tensor, *dtype));
    if (static_cast<std::int64_t>(stored.bytes.size()) != bytes) {
      return bad_input(where + " is a " + to_string(stored.type) + " of " + std::to_string(bytes) + " bytes, and " +
                       std::to_string(stored.bytes.size()) + " are stored; the file was written wrong");
    }
    return stored;
  }

  static Result<ExternalPlace> read_place(const ::onnx::TensorProto& tensor, const std::string& where) {
    ExternalPlace place;
    for (const ::onnx::StringStringEntryProto& entry : tensor.external_data()) {
      if (entry.key() == "location") place.location = entry.value();
      std::int64_t* number = entry.key() == "offset"   ? &place.offset
                             : entry.key() == "length" ? &place.length
                                                       : nullptr;
      if (number == nullptr) continue;
      const std::string& text = entry.value();
      const bool digits = !text.empty() && text.size() < 19 &&
                          std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits) return bad_input(where + " has the " + entry.key() + " '" + text + "', which is no size");
      *number = std::stoll(text);
    }
    if (place.location.empty()) return bad_input(where + " lies in another file, and does not say in which");
    return place;
  }

  static ValueType read_type(const ::onnx::TypeProto& type) {
    ValueType value;
    if (!type.has_tensor_type()) {
      if (type.value_case() != ::onnx::TypeProto::VALUE_NOT_SET) value.problem = "it is no tensor";
      return value;
    }
    const ::onnx::TypeProto::Tensor& tensor = type.tensor_type();
    value.dtype = dtype_of(tensor.elem_type());
    if (!value.dtype && tensor.elem_type() != 0)
      value.problem = "its type, " + type_name(tensor.elem_type()) + ", is not supported";
    if (!tensor.has_shape()) return value;
    value.shape.emplace();
    for (const ::onnx::TensorShapeProto::Dimension& dimension : tensor.shape().dim()) {
      Dimension& added = value.shape->emplace_back();
      if (dimension.has_dim_value() && dimension.dim_value() >= 0)
        added.size = dimension.dim_value();
      else
        added.symbol = dimension.dim_param();
    }
    return value;
  }

  Result<NodeAttribute> read_attribute(const ::onnx::AttributeProto& attribute, const std::string& where) {
    if (!attribute.ref_attr_name().empty()) return NodeAttribute(AttributeReference{attribute.ref_attr_name()});
    switch (attribute.type()) {
      case ::onnx::AttributeProto::INT:
        return NodeAttribute(static_cast<std::int64_t>(attribute.i()));
      case ::onnx::AttributeProto::FLOAT:
        return NodeAttribute(static_cast<double>(attribute.f()));
      case ::onnx::AttributeProto::STRING:
        return NodeAttribute(attribute.s());
      case ::onnx::AttributeProto::INTS:
        return NodeAttribute(std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
      case ::onnx::AttributeProto::FLOATS:
        return NodeAttribute(std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
      case ::onnx::AttributeProto::STRINGS:
        return NodeAttribute(std::vector<std::string>(attribute.strings().begin(), attribute.strings().end()));
      case ::onnx::AttributeProto::GRAPH:
      case ::onnx::AttributeProto::GRAPHS:
        return NodeAttribute(Subgraph{});
      case ::onnx::AttributeProto::TENSOR: {
        Result<StoredTensor> stored = read_tensor(attribute.t(), where + ", attribute '" + attribute.name() + "',");
        if (!stored) return stored.error();
        return NodeAttribute(std::move(*stored));
      }
      default:
        return NodeAttribute();
    }
  }

  Status read_nodes(const RepeatedPtrField<::onnx::NodeProto>& protos, std::vector<ModelNode>& nodes) {
    for (const ::onnx::NodeProto& proto : protos) {
      ModelNode node;
      node.op = proto.op_type();
      node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
      node.name = proto.name();
      node.inputs.assign(proto.input().begin(), proto.input().end());
      node.outputs.assign(proto.output().begin(), proto.output().end());
      const std::string where = "node '" + (node.name.empty() ? node.op : node.name) + "'";
      if (node.outputs.empty()) return bad_input(where + " has no result");
      for (const ::onnx::StringStringEntryProto& entry : proto.metadata_props()) {
        if (entry.key() == kScopes) node.module_path = module_of_scopes(entry.value());
      }
      if (node.module_path.empty()) node.module_path = module_of_name(node.name);
      for (const ::onnx::AttributeProto& attribute : proto.attribute()) {
        Result<NodeAttribute> read = read_attribute(attribute, where);
        if (!read) return read.error();
        node.attributes[attribute.name()] = std::move(*read);
      }
      nodes.push_back(std::move(node));
    }
    return Done{};
  }

  Status read_function(const ::onnx::FunctionProto& proto) {
    ModelFunction function;
    function.inputs.assign(proto.input().begin(), proto.input().end());
    function.outputs.assign(proto.output().begin(), proto.output().end());
    for (const ::onnx::AttributeProto& attribute : proto.attribute_proto()) {
      Result<NodeAttribute> read = read_attribute(attribute, "function '" + proto.name() + "'");
      if (!read) return read.error();
      function.defaults[attribute.name()] = std::move(*read);
    }
    if (Status status = read_nodes(proto.node(), function.nodes); !status) return status;
    model_.functions[proto.domain() + "::" + proto.name()] = std::move(function);
    return Done{};
  }

  Storage& storage_;
  Model model_;
};

}  // namespace

Result<Model> parse_model(const std::string& path) {
  static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian and read as they lie");
  static const auto silence = google::protobuf::SetLogHandler(nullptr);  // it writes to the terminal otherwise
  (void)silence;
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad_input(path + ": can't be opened; give the path of an .onnx file");
  const auto storage = std::make_shared<Storage>();
  if (!storage->proto.ParseFromIstream(&file)) {
    return bad_input(path + ": is not an ONNX model, or was cut short: its protobuf can't be read; export it again");
  }
  Result<Model> model = Parser(*storage).run();
  if (!model) return add_context(path, model.error());
  model->storage = storage;
  return model;
}

}  // namespace meshwright::onnx
