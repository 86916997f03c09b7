#include "meshwright/graph.h"

#include <algorithm>
#include <set>

#include "graph/aten/check_call.h"

namespace meshwright {

std::optional<std::size_t> Node::operand_index(std::string_view operand) const {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].name == operand) return i;
  }
  return std::nullopt;
}

namespace {

template <class T>
const T* find_attribute(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

std::int64_t Node::integer(std::string_view attribute, std::int64_t otherwise) const {
  const auto* value = find_attribute<std::int64_t>(*this, attribute);
  return value ? *value : otherwise;
}

bool Node::boolean(std::string_view attribute, bool otherwise) const {
  const auto* value = find_attribute<bool>(*this, attribute);
  return value ? *value : otherwise;
}

double Node::number(std::string_view attribute, double otherwise) const {
  if (const auto* real = find_attribute<double>(*this, attribute)) return *real;
  if (const auto* whole = find_attribute<std::int64_t>(*this, attribute)) return static_cast<double>(*whole);
  if (const auto* flag = find_attribute<bool>(*this, attribute)) return *flag ? 1 : 0;
  return otherwise;
}

std::vector<std::int64_t> Node::integers(std::string_view attribute) const {
  const auto* value = find_attribute<std::vector<std::int64_t>>(*this, attribute);
  return value ? *value : std::vector<std::int64_t>{};
}

std::string Node::text(std::string_view attribute, std::string_view otherwise) const {
  const auto* value = find_attribute<std::string>(*this, attribute);
  return value ? *value : std::string(otherwise);
}

namespace {

// The values that a node makes differentiable: a floating-point operand with a gradient makes floating-point results.
bool has_gradient_operand(const Graph& graph, const Node& node) {
  if (node.op == "aten.detach") return false;
  for (const Operand& operand : node.operands) {
    if (graph.values[operand.value].requires_gradient) return true;
  }
  return false;
}

// A petabyte: larger tensors are a mistake, and sums over a graph of smaller ones stay numbers.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::size_t kMostDimensions = 64;  // as PyTorch

Status check_type(const Graph& graph, const Value& value) {
  const std::string where = "graph '" + graph.name + "', value '" + value.name + "'";
  if (value.type.shape.size() > kMostDimensions) return bad_input(where + ": has more than " + std::to_string(kMostDimensions) + " dimensions");
  std::int64_t bytes = size_bytes(value.type.dtype);
  for (const std::int64_t size : value.type.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes) || bytes > kMostBytes)
      return bad_input(where + ": has a negative size, or an impossibly large one");
  }
  if (value.requires_gradient && !is_floating(value.type.dtype))
    return bad_input(where + ": is " + std::string(name(value.type.dtype)) + ", which has no gradient, and is marked as if it had");
  return Done{};
}

// What one op says of a call (aten/check_call.h), and that nobody reads an empty tensor, of which no rule knows how to cut it.
Status check_call(const Graph& graph, const Node& node) {
  const std::string where = "graph '" + graph.name + "', node '" + node.name + "' (" + node.op + ")";
  for (const Operand& operand : node.operands) {
    if (graph.type(operand.value).elements() == 0)
      return bad_input(where + ": its '" + operand.name + "' has no elements; export the model without empty tensors");
  }
  if (Status status = aten::check_call(graph, node); !status) return add_context(where, status.error());
  return Done{};
}

Status check_node(const Graph& graph, NodeId id, std::vector<bool>& defined) {
  const Node& node = graph.nodes[id];
  const std::string where = "graph '" + graph.name + "', node '" + node.name + "'";
  for (const Operand& operand : node.operands) {
    if (operand.value >= graph.values.size()) return bad_input(where + ": operand '" + operand.name + "' has no value");
    if (!defined[operand.value]) {
      return bad_input(where + ": operand '" + operand.name + "' uses '" + graph.values[operand.value].name +
                       "' before it is defined");
    }
  }
  const bool gradient = has_gradient_operand(graph, node);
  for (const ValueId result : node.results) {
    if (result >= graph.values.size()) return bad_input(where + ": a result has no value");
    const Value& value = graph.values[result];
    if (value.producer != id || defined[result]) return bad_input(where + ": result '" + value.name + "' has two producers");
    if (value.requires_gradient != (gradient && is_floating(value.type.dtype))) {
      return internal_error(where + ": result '" + value.name + "' has a wrong gradient mark; call mark_gradients");
    }
    defined[result] = true;
  }
  return Done{};
}

}  // namespace

Status validate(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (Status status = check_type(graph, value); !status) return status;
  }
  std::vector<bool> defined(graph.values.size(), false);
  for (const Source& source : graph.sources) {
    if (source.value >= graph.values.size()) return bad_input("graph '" + graph.name + "': a source has no value");
    if (graph.values[source.value].producer != kNoId || defined[source.value]) {
      return bad_input("graph '" + graph.name + "': '" + graph.values[source.value].name + "' is both a source and a result");
    }
    defined[source.value] = true;
  }
  std::set<std::string_view> names;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (!names.insert(graph.nodes[id].name).second) {
      return bad_input("graph '" + graph.name + "': two nodes are named '" + graph.nodes[id].name + "'");
    }
    if (Status status = check_node(graph, id, defined); !status) return status;
    if (Status status = check_call(graph, graph.nodes[id]); !status) return status;
  }
  for (const Output& output : graph.outputs) {
    if (output.value >= graph.values.size() || !defined[output.value]) {
      return bad_input("graph '" + graph.name + "': an output is not defined");
    }
  }
  return Done{};
}

void mark_gradients(Graph& graph) {
  for (const Node& node : graph.nodes) {
    const bool gradient = has_gradient_operand(graph, node);
    for (const ValueId result : node.results) {
      graph.values[result].requires_gradient = gradient && is_floating(graph.values[result].type.dtype);
    }
  }
}

}  // namespace meshwright
