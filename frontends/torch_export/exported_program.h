// What a .pt2 file says, as plain values: the part of torch._export.serde.schema (major 8) that a Graph is made from.
// Names are kept as text and nothing is checked but the JSON's structure; translate.h gives it meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::torch_export {

struct TensorName {
  std::string name;
};
using TensorNames = std::vector<std::string>;  // "" where an optional tensor is absent
// A number, or a list of numbers, that is not known until dimensions have sizes or the program runs.
struct Symbolic {
  std::vector<std::string> elements;  // names of numbers, or numbers; one if it is no list
  bool is_list = false;
  bool is_check = false;  // a truth value, which only the export's own checks use
};
struct Unsupported {  // an argument that no functional ATen op has
  std::string kind;   // "as_graph"
};
using ArgumentValue = std::variant<Attribute, TensorName, TensorNames, Symbolic, Unsupported>;

struct Argument {
  std::string name;
  ArgumentValue value;
};

struct ExportedNode {
  std::string target;  // "torch.ops.aten.add.Tensor"
  std::string name;    // "" in files written before nodes had names
  std::string module_stack;
  std::vector<Argument> inputs;
  std::vector<ArgumentValue> outputs;
};

struct ExportedTensor {
  int dtype_code = 0;
  std::vector<std::int64_t> shape;       // 0 where a size is not a number
  std::vector<std::string> expressions;  // as shape: of sizes that are not numbers; "" for others
  std::string symbol;                    // the first of these; "" if all sizes are numbers
  bool requires_gradient = false;
};

struct InputSpec {
  enum class Kind { parameter, buffer, constant, user_input, other } kind = Kind::other;
  std::string value;   // "" where the input is no tensor
  std::string target;  // "transformer.wte.weight"; "" for a user input
};

struct OutputSpec {
  std::string kind;    // the schema's word: "user_output", "loss_output", "buffer_mutation", ...
  std::string value;   // "" where the output is no tensor
  std::string target;  // the buffer, for a mutation
};

struct ExportedProgram {
  std::vector<ExportedNode> nodes;
  std::unordered_map<std::string, ExportedTensor> tensors;
  std::unordered_map<std::string, std::string> numbers;  // the expressions behind Symbolic names
  std::unordered_map<std::string, std::int64_t> hints;   // of symbols: the sizes that the model was exported with
  std::unordered_map<std::string, std::pair<std::int64_t, std::int64_t>> ranges;  // of symbols: least and most
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
};

// Where a tensor's bytes lie: tied parameters lie in one place.
struct WeightPlace {
  std::string payload;  // file name under data/weights/ or data/constants/
  ExportedTensor tensor;
  std::int64_t offset = 0;  // in elements, as the strides
  std::vector<std::int64_t> strides;
  bool has_bytes = true;  // not on the meta device
  bool is_raw = true;     // its bytes as they are, not a pickled object
  bool operator==(const WeightPlace& other) const {
    return payload == other.payload && offset == other.offset && tensor.shape == other.tensor.shape &&
           strides == other.strides && tensor.dtype_code == other.tensor.dtype_code;
  }
};

// Errors: bad_input, one sentence without the file's name: JSON cut short or invalid, not the schema's structure, or a
// schema other than major 8. The configuration of weights and that of constants have one form; an archive without one
// has an empty text, which says nothing of any.
Result<ExportedProgram> parse_program(const std::string& text);
Result<std::unordered_map<std::string, WeightPlace>> parse_weights(const std::string& text);
Result<std::unordered_map<std::string, WeightPlace>> parse_constants(const std::string& text);

// The dtype that a ScalarType code of the schema means; nothing for those that Meshwright does not know (float8, ...).
std::optional<DType> dtype_of(int code);

}  // namespace meshwright::torch_export
