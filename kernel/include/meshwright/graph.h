// The model for one device, in SSA form: values, and nodes in topological order that make them. The vocabulary of
// ops is functional ATen as `torch.export` leaves it after run_decompositions({}) (DESIGN §2): "aten.linear",
// "aten.add.Tensor" (an overload ".default" is left out). Nothing is in place. Only the forward pass stands here;
// the backward pass is derived.
//
// A Graph is a plain value: copy it, compare it, keep it. `validate` proves the invariants that everybody may assume.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/dtype.h"
#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/tensor_type.h"

namespace meshwright {

using ValueId = std::uint32_t;
using NodeId = std::uint32_t;
inline constexpr std::uint32_t kNoId = 0xffffffffU;

using Attribute = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>>;

struct Value {
  std::string name;
  TensorType type;
  NodeId producer = kNoId;  // kNoId: a parameter, buffer, constant or user input
  bool requires_gradient = false;
  bool operator==(const Value&) const = default;
};

// A tensor argument, under the name that the op's schema gives it: "self", "weight", "bias". The elements of a tensor
// list are "tensors.0", "tensors.1", ...; an absent optional tensor has no Operand.
struct Operand {
  std::string name;
  ValueId value = kNoId;
  bool operator==(const Operand&) const = default;
};

struct Node {
  std::string op;
  std::string name;         // unique in the graph
  std::string module_path;  // "transformer.h.0.attn"; "" where the frontend knows none
  std::vector<Operand> operands;
  std::map<std::string, Attribute, std::less<>> attributes;  // the arguments that are not tensors, by schema name
  std::vector<ValueId> results;

  [[nodiscard]] MESHWRIGHT_API std::optional<std::size_t> operand_index(std::string_view operand) const;
  // The attribute's value, or `otherwise` where it is absent, none or of another type.
  [[nodiscard]] MESHWRIGHT_API std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  [[nodiscard]] MESHWRIGHT_API bool boolean(std::string_view attribute, bool otherwise) const;
  // A number that may be written as a real, an integer or a truth value.
  [[nodiscard]] MESHWRIGHT_API double number(std::string_view attribute, double otherwise) const;
  [[nodiscard]] MESHWRIGHT_API std::vector<std::int64_t> integers(std::string_view attribute) const;
  [[nodiscard]] MESHWRIGHT_API std::string text(std::string_view attribute, std::string_view otherwise) const;
  bool operator==(const Node&) const = default;
};

// `received` is what another stage of a pipeline sends (stages.h), under the name that the value has there: it has a gradient, which goes back.
enum class SourceKind : std::uint8_t { parameter, buffer, constant, user_input, received };

struct Source {
  SourceKind kind = SourceKind::user_input;
  ValueId value = kNoId;
  std::vector<std::string> names;  // more than one where weights are tied
  bool operator==(const Source&) const = default;
};

// `sent` is what other stages receive, and give a gradient for.
enum class OutputKind : std::uint8_t { loss, user_output, buffer_mutation, sent };

struct Output {
  OutputKind kind = OutputKind::user_output;
  ValueId value = kNoId;
  std::string target;  // the buffer's name, for a mutation
  bool operator==(const Output&) const = default;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // topological
  std::vector<Source> sources;
  std::vector<Output> outputs;

  [[nodiscard]] const TensorType& type(ValueId id) const { return values[id].type; }
  bool operator==(const Graph&) const = default;
};

// Checks that ids are in range, that each value has one producer before its first use, that names are unique, and that
// `requires_gradient` is what the parameters imply.
MESHWRIGHT_API Status validate(const Graph& graph);

// Removes the nodes whose results nobody needs.
MESHWRIGHT_API void drop_dead_nodes(Graph& graph);

// Removes the sources too that no output needs. Gives the names of the user inputs among them.
MESHWRIGHT_API std::vector<std::string> drop_unused(Graph& graph);

// Marks the values that depend on a parameter through floating-point values only.
MESHWRIGHT_API void mark_gradients(Graph& graph);

}  // namespace meshwright
