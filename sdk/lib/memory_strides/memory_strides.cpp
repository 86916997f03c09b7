#include "memory_strides.h"

#include <algorithm>
#include <numeric>

#include "meshwright/tensor.h"

namespace meshwright {

namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

bool reshapes(std::string_view op) {
  return is_one_of(op, {"aten.view", "aten._unsafe_view", "aten.reshape", "aten.unsqueeze", "aten.squeeze", "aten.squeeze.dim",
                        "aten.squeeze.dims", "aten.alias", "aten.detach"});
}

bool permutes(std::string_view op) { return is_one_of(op, {"aten.permute", "aten.transpose.int", "aten.t"}); }

bool cuts(std::string_view op) {
  return is_one_of(op, {"aten.slice.Tensor", "aten.split.Tensor", "aten.split_with_sizes", "aten.chunk", "aten.select.int",
                        "aten.unbind.int"});
}

bool keeps_order(std::string_view op) {
  return is_one_of(op, {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.neg", "aten._to_copy",
                        "aten.dropout", "aten.scaled_dot_product_attention"});
}

// The number of a dimension of the operand, if the operand has it.
std::optional<std::size_t> dimension(const Node& node, const char* name, std::int64_t otherwise, std::size_t rank) {
  std::int64_t at = node.integer(name, otherwise);
  if (at < 0) at += static_cast<std::int64_t>(rank);
  if (at < 0 || at >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(at);
}

std::optional<Strides> permuted(const Node& node, const Strides& strides) {
  if (node.op == "aten.permute") {
    Strides made;
    for (std::int64_t at : node.integers("dims")) {
      if (at < 0) at += static_cast<std::int64_t>(strides.size());
      if (at < 0 || at >= static_cast<std::int64_t>(strides.size())) return std::nullopt;
      made.push_back(strides[static_cast<std::size_t>(at)]);
    }
    return made;
  }
  if (strides.size() < 2) return strides;
  const auto first = dimension(node, "dim0", 0, strides.size()), second = dimension(node, "dim1", 1, strides.size());
  if (!first || !second) return std::nullopt;
  Strides made = strides;
  std::swap(made[*first], made[*second]);
  return made;
}

std::optional<Strides> cut(const Node& node, Strides strides) {
  const auto at = dimension(node, "dim", 0, strides.size());
  if (!at) return std::nullopt;
  if (node.op == "aten.select.int" || node.op == "aten.unbind.int") {
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(*at));
  } else if (node.op == "aten.slice.Tensor") {
    strides[*at] *= node.integer("step", 1);
  }
  return strides;
}

std::optional<Strides> expanded(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to, const Strides& strides) {
  if (to.size() < from.size()) return std::nullopt;
  Strides made(to.size(), 0);
  const std::size_t added = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) made[added + i] = from[i] == to[added + i] ? strides[i] : 0;
  return made;
}

// Dense, its dimensions in the order in which `strides` has them.
Strides dense_in_order(const std::vector<std::int64_t>& shape, const Strides& strides) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  Strides made(shape.size(), 1);
  std::int64_t step = 1;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    made[*at] = step;
    step *= shape[*at];
  }
  return made;
}

// Of the result, where the first operand has `strides`; nothing: row-major.
std::optional<Strides> through(const Graph& graph, const Node& node, ValueId result, const Strides& strides) {
  const std::vector<std::int64_t>&from = graph.type(node.operands[0].value).shape, &to = graph.type(result).shape;
  if (reshapes(node.op)) return viewed_strides(from, strides, to);
  if (permutes(node.op)) return permuted(node, strides);
  if (cuts(node.op)) return cut(node, strides);
  if (node.op == "aten.expand") return expanded(from, to, strides);
  const bool alike = node.op == "aten.scaled_dot_product_attention" ? from.size() == to.size() : from == to;
  if (keeps_order(node.op) && alike) return dense_in_order(to, strides);
  return std::nullopt;
}

bool makes_view(std::string_view op) { return reshapes(op) || permutes(op) || cuts(op) || op == "aten.expand"; }

// Who made the value out of its first operand, if one did.
const Node* producer_of(const Graph& graph, ValueId value) {
  const NodeId id = graph.values[value].producer;
  return id == kNoId || graph.nodes[id].operands.empty() ? nullptr : &graph.nodes[id];
}

}  // namespace

std::optional<Strides> viewed_strides(const std::vector<std::int64_t>& shape, const Strides& strides,
                                      const std::vector<std::int64_t>& viewed) {
  struct Run {
    std::int64_t size, stride;  // elements `stride` apart
  };
  std::vector<Run> runs;  // outermost first; dimensions that follow each other in memory are one
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!runs.empty() && runs.back().stride == shape[i] * strides[i]) runs.back() = {runs.back().size * shape[i], strides[i]};
    else runs.push_back({shape[i], strides[i]});
  }
  Strides made(viewed.size(), 1);
  for (std::size_t i = viewed.size(); i-- > 0;) {
    if (viewed[i] == 1) continue;
    if (runs.empty() || viewed[i] == 0 || runs.back().size % viewed[i] != 0) return std::nullopt;
    Run& inner = runs.back();
    made[i] = inner.stride;
    inner = {inner.size / viewed[i], inner.stride * viewed[i]};
    if (inner.size == 1) runs.pop_back();
  }
  if (!runs.empty()) return std::nullopt;
  return made;
}

bool is_row_major(const std::vector<std::int64_t>& shape, const Strides& strides) {
  const Strides dense = strides_of(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

ValueId viewed_value(const Graph& graph, ValueId value) {
  const Node* node = producer_of(graph, value);
  while (node && makes_view(node->op)) {
    value = node->operands[0].value;
    node = producer_of(graph, value);
  }
  return value;
}

Strides memory_strides(const Graph& graph, ValueId value) {
  std::vector<ValueId> chain = {value};  // each made out of the next
  for (const Node* node = producer_of(graph, value); node && (makes_view(node->op) || keeps_order(node->op));) {
    chain.push_back(node->operands[0].value);
    node = producer_of(graph, chain.back());
  }
  Strides strides = strides_of(graph.type(chain.back()).shape);
  for (std::size_t i = chain.size() - 1; i-- > 0;) {
    const std::vector<std::int64_t>& shape = graph.type(chain[i]).shape;
    const std::optional<Strides> here = through(graph, *producer_of(graph, chain[i]), chain[i], strides);
    strides = here && here->size() == shape.size() ? *here : strides_of(shape);
  }
  return strides;
}

}  // namespace meshwright
