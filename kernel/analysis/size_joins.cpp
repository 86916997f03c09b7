#include "analysis/size_joins.h"

#include <algorithm>
#include <string>
#include <utility>

namespace meshwright {

SizeJoins::SizeJoins(const Graph& graph, const AtomizedGraph& atoms) : graph_(graph), atoms_(atoms) {
  join_whole_factors();
  join_enumerated_dimensions();
}

// Atoms that are the same one by a rule have one class; but rules say nothing of factors that stay whole.
void SizeJoins::join_whole_factors() {
  for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
    const Rule& rule = atoms_.nodes[id].rule;
    if (!atoms_.nodes[id].ruled) continue;
    std::map<FactorId, std::pair<ValueId, std::size_t>> first;
    const auto visit = [&](const TensorRule& tensor, ValueId value) {
      for (std::size_t d = 0; d < tensor.dimensions.size(); ++d) {
        if (tensor.dimensions[d].size() != 1 || !rule.factors[tensor.dimensions[d][0]].whole) continue;
        const auto [known, inserted] = first.try_emplace(tensor.dimensions[d][0], value, d);
        if (!inserted) join(known->second.first, known->second.second, value, d);
      }
    };
    const Node& node = graph_.nodes[id];
    for (std::size_t i = 0; i < node.operands.size(); ++i) visit(rule.operands[i], node.operands[i].value);
    for (std::size_t i = 0; i < node.results.size(); ++i) visit(rule.results[i], node.results[i]);
  }
}

// A table that 0 .. n-1 indexes has n rows because something else has n: `mask[arange(batch), ...]`.
void SizeJoins::join_enumerated_dimensions() {
  for (const Node& node : graph_.nodes) {
    if (node.op != "aten.index.Tensor") continue;
    for (const Operand& operand : node.operands) {
      const std::size_t dot = operand.name.find('.');
      if (dot == std::string::npos) continue;
      const std::size_t dimension = std::stoul(operand.name.substr(dot + 1));
      const ValueId numbers = enumeration_behind(graph_, operand.value);
      if (numbers != kNoId && graph_.type(numbers).shape[0] == graph_.type(node.operands[0].value).shape[dimension]) {
        join(numbers, 0, node.operands[0].value, dimension);
      }
    }
  }
}

void SizeJoins::join(ValueId a, std::size_t a_dimension, ValueId b, std::size_t b_dimension) {
  const AtomShape &of_a = atoms_.values[a], &of_b = atoms_.values[b];
  const std::size_t count = of_a.atoms_of_dimension[a_dimension];
  if (of_b.atoms_of_dimension[b_dimension] != count) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (of_a.sizes[of_a.first_atom(a_dimension) + i] != of_b.sizes[of_b.first_atom(b_dimension) + i]) return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t x = class_of(a, of_a.first_atom(a_dimension) + i), y = class_of(b, of_b.first_atom(b_dimension) + i);
    if (x != y) parent_[std::max(x, y)] = std::min(x, y);
  }
}

std::uint32_t SizeJoins::class_of(ValueId value, std::size_t atom) const {
  std::uint32_t at = atoms_.classes[value][atom];
  for (auto next = parent_.find(at); next != parent_.end(); next = parent_.find(at)) at = next->second;
  return at;
}

ValueId enumeration_behind(const Graph& graph, ValueId value) {
  while (graph.values[value].producer != kNoId) {
    const Node& node = graph.nodes[graph.values[value].producer];
    if (node.op == "aten.arange" || node.op.starts_with("aten.arange.start")) {
      return node.integer("start", 0) == 0 && node.integer("step", 1) == 1 ? value : kNoId;
    }
    const bool keeps = node.op == "aten.unsqueeze" || node.op == "aten.view" || node.op == "aten.expand" || node.op == "aten._to_copy" ||
                       (node.op.starts_with("aten.add.") && node.operands.size() == 1 && node.number("other", 1) == 0);
    if (!keeps) return kNoId;
    value = node.operands[0].value;
  }
  return kNoId;
}

namespace {

// In proportion, where that is whole; what lies beyond the end, or counts from it, stays.
void scale(Attribute& number, std::int64_t before, std::int64_t now) {
  auto* at = std::get_if<std::int64_t>(&number);
  if (at != nullptr && *at >= 0 && *at <= before && *at * now % before == 0) *at = *at * now / before;
}

void cut_in_proportion(Node& node, const OpCall& before, const std::vector<TensorType>& operands) {
  const bool slices = node.op.starts_with("aten.slice.");
  if ((!slices && !node.op.starts_with("aten.split")) || operands.empty()) return;
  const std::int64_t dim = node.integer("dim", 0), rank = before.operands[0].rank();
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  if (at >= before.operands[0].shape.size()) return;
  const std::int64_t was = before.operands[0].shape[at], is = operands[0].shape[at];
  if (was == is || was == 0) return;
  for (const char* name : {"start", "end", "split_size"}) {
    if (const auto found = node.attributes.find(name); found != node.attributes.end()) scale(found->second, was, is);
  }
  if (const auto found = node.attributes.find("split_sizes"); found != node.attributes.end()) {
    std::vector<std::int64_t> sizes = node.integers("split_sizes");
    for (std::int64_t& size : sizes) {
      if (size * is % was == 0) size = size * is / was;
    }
    found->second = sizes;
  }
}

}  // namespace

Node node_of_sizes(const OpCall& call, const std::vector<TensorType>& operands, const std::vector<TensorType>& results) {
  Node node = call.node;
  if (results.empty()) return node;
  const TensorType &before = call.results[0], &now = results[0];
  for (const char* name : {"size", "shape"}) {
    std::vector<std::int64_t> sizes = node.integers(name);
    if (sizes.empty() || sizes.size() != before.shape.size()) continue;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == before.shape[d]) sizes[d] = now.shape[d];
    }
    node.attributes[name] = sizes;
  }
  if (node.op.starts_with("aten.arange") && now != before) node.attributes["end"] = node.integer("start", 0) + node.integer("step", 1) * now.shape[0];
  if (const std::vector<std::int64_t> normed = node.integers("normalized_shape"); !normed.empty() && !operands.empty() && normed.size() <= operands[0].shape.size()) {
    node.attributes["normalized_shape"] = std::vector<std::int64_t>(operands[0].shape.end() - static_cast<std::ptrdiff_t>(normed.size()), operands[0].shape.end());
  }
  if (node.op == "aten.repeat" && !operands.empty()) {
    std::vector<std::int64_t> repeats = node.integers("repeats");
    const std::size_t ahead = repeats.size() - operands[0].shape.size();
    for (std::size_t d = 0; d < repeats.size(); ++d) {
      const std::int64_t whole = d >= ahead ? operands[0].shape[d - ahead] : 1;
      if (now.shape[d] != before.shape[d] && whole > 0 && now.shape[d] % whole == 0) repeats[d] = now.shape[d] / whole;
    }
    node.attributes["repeats"] = repeats;
  }
  cut_in_proportion(node, call, operands);
  return node;
}

}  // namespace meshwright
