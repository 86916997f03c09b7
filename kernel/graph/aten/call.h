// One call of an ATen op whose arguments fit its schema: what shapes are inferred from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::aten {

using Shape = std::vector<std::int64_t>;
using Shapes = std::vector<Shape>;

class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const std::string& op() const { return node_.op; }
  [[nodiscard]] bool has(std::string_view operand) const { return node_.operand_index(operand).has_value(); }
  [[nodiscard]] std::size_t operands() const { return node_.operands.size(); }
  [[nodiscard]] const TensorType& operand(std::size_t index) const { return graph_.type(node_.operands[index].value); }
  // Of an operand that the schema requires, or that `has` says is there.
  [[nodiscard]] const TensorType& type(std::string_view operand) const {
    return this->operand(*node_.operand_index(operand));
  }
  [[nodiscard]] const Shape& shape(std::string_view operand) const { return type(operand).shape; }
  [[nodiscard]] const TensorType& result(std::size_t index) const { return graph_.type(node_.results[index]); }
  [[nodiscard]] std::size_t results() const { return node_.results.size(); }

  [[nodiscard]] bool says(std::string_view attribute) const {
    const auto found = node_.attributes.find(attribute);
    return found != node_.attributes.end() && !std::holds_alternative<std::monostate>(found->second);
  }
  [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const {
    return node_.integer(attribute, otherwise);
  }
  [[nodiscard]] bool truth(std::string_view attribute) const { return node_.boolean(attribute, false); }
  // A list; one number is a list of one.
  [[nodiscard]] Shape list(std::string_view attribute) const;
  // A list with one number for each of `count` dimensions, from a list of as many, of one, or of none (`otherwise`).
  // Errors: a list of another length.
  [[nodiscard]] Result<Shape> spread(std::string_view attribute, std::size_t count, std::int64_t otherwise) const;

 private:
  const Graph& graph_;
  const Node& node_;
};

// `dim` counted from the front. Errors: out of range; a tensor without dimensions has dimension 0, as in PyTorch.
Result<std::size_t> dimension(std::int64_t dim, std::size_t rank);
// Those that a list names, in rising order, each once; all for an empty list. Errors: as above, one twice.
Result<std::vector<std::size_t>> dimensions(const Shape& dims, std::size_t rank);
// Errors: sizes that are neither equal nor 1.
Result<Shape> broadcast(const Shape& a, const Shape& b);
std::int64_t elements(const Shape& shape);  // at most kMostElements, which is where counting stops
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
std::string text(const Shape& shape);

// The shapes of a call's results, as many as the op has. Nothing: no shape is inferred for this op.
// Errors: bad_input, operands or arguments that do not go together, without the node's name.
Result<std::optional<Shapes>> infer(const Call& call);

// Errors: bad_input, dtypes that the op does not take or does not give.
Status check_dtypes(const Call& call);

}  // namespace meshwright::aten
