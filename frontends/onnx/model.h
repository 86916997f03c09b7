// What an .onnx file says, without protobuf: nodes, tensors and types by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::onnx {

// Where bytes lie outside of the model's file. `length` is -1 where the file does not say.
struct ExternalPlace {
  std::string location;
  std::int64_t offset = 0;
  std::int64_t length = -1;
};

struct StoredTensor {
  std::string name;
  TensorType type;
  std::string_view bytes;  // little-endian, row-major, in memory that the Model keeps; empty where `external` is set
  std::optional<ExternalPlace> external;
};

struct Subgraph {};  // of an If or a Loop; what is in it is not kept
struct AttributeReference {
  std::string name;  // the attribute of the function that holds the node
};
using NodeAttribute =
    std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                 std::vector<std::string>, StoredTensor, Subgraph, AttributeReference>;

struct ModelNode {
  std::string op;      // "MatMul"
  std::string domain;  // "" for ONNX's own
  std::string name;    // may be empty or not unique
  std::string module_path;
  std::vector<std::string> inputs;  // "": absent
  std::vector<std::string> outputs;
  std::map<std::string, NodeAttribute, std::less<>> attributes;
};

struct Dimension {
  std::int64_t size = -1;  // -1: open
  std::string symbol;      // of an open one; may be empty
};

struct ValueType {
  std::optional<DType> dtype;
  std::optional<std::vector<Dimension>> shape;
  std::string problem;  // why there is no dtype: "sequences are not supported"; empty otherwise
};

struct ModelValue {
  std::string name;
  ValueType type;
};

struct ModelFunction {
  std::vector<std::string> inputs, outputs;
  std::vector<ModelNode> nodes;
  std::map<std::string, NodeAttribute, std::less<>> defaults;  // of its attributes
};

struct Model {
  std::int64_t opset = 0;
  std::string producer;
  std::vector<ModelValue> inputs;  // without those that are initializers
  std::vector<ModelValue> outputs;
  std::vector<ModelNode> nodes;  // topological, as the format demands
  std::map<std::string, StoredTensor> initializers;
  std::map<std::string, ValueType> types;          // of values between nodes, as far as the file tells
  std::map<std::string, ModelFunction> functions;  // by "domain::name"
  std::shared_ptr<const void> storage;             // what `bytes` point into
};

// Reads the file. Errors: bad_input with the file and what is wrong: not ONNX, cut short, an opset that is not read, a
// tensor whose type or size is impossible.
Result<Model> parse_model(const std::string& path);

// Replaces every call of a function that the model itself defines by that function's nodes. Errors: bad_input, naming
// the node.
Status inline_functions(Model& model);

inline constexpr std::int64_t kFirstOpset = 13, kLastOpset = 23;

}  // namespace meshwright::onnx
