#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "analysis/size_joins.h"
#include "meshwright/resize.h"

namespace meshwright {

namespace {

// What is no larger counts as "all but a few": one token more, a class token, the two rows that some tables of positions have more than there are positions.
constexpr std::int64_t kFew = 8;

class TieFinder {
 public:
  TieFinder(const Graph& graph, const AtomizedGraph& atoms, SizeClasses& made) : graph_(graph), atoms_(atoms), made_(made) {}

  void run() {
    for (const Source& source : graph_.sources) {
      if (source.kind == SourceKind::constant) fix_all(source.value, "the model's file has '" + graph_.values[source.value].name + "' with that size");
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      visit(graph_.nodes[id]);
      keep_shape(id);
    }
  }

 private:
  void visit(const Node& node) {
    if (node.operands.empty() || node.results.empty()) return;
    const ValueId first = node.operands[0].value;
    if (node.op == "aten.slice.Tensor") {
      slice(node, dimension(node, first));
    } else if (node.op.starts_with("aten.split") || node.op == "aten.chunk") {
      pieces(first, node.results, dimension(node, first));
    } else if (node.op == "aten.cat") {
      std::vector<ValueId> of;
      for (const Operand& operand : node.operands) of.push_back(operand.value);
      pieces(node.results[0], of, dimension(node, node.results[0]));
    } else if (node.op == "aten.constant_pad_nd" || node.op == "aten.pad") {
      for (std::size_t d = 0; d < graph_.type(first).shape.size(); ++d) keep_difference(first, d, node.results[0], d);
    } else if (node.op == "aten.embedding" && node.operands.size() > 1) {
      look_up(node);
    } else if (node.op.starts_with("aten.conv")) {
      if (const auto weight = node.operand_index("weight")) fix(node.operands[*weight].value, 2, "it is the window of " + node.op + " at '" + node.name + "'");
    } else if (node.op == "aten.index.Tensor" || node.op == "aten.index_select" || node.op == "aten.gather") {
      // Numbers in the file say how many rows there are.
      for (std::size_t i = 1; i < node.operands.size(); ++i) {
        const Operand& index = node.operands[i];
        if (!is_of_file(index.value)) continue;
        const std::size_t dot = index.name.find('.');  // "indices.1" indexes dimension 1
        fix_dimension(first, dot == std::string::npos ? dimension(node, first) : std::stoul(index.name.substr(dot + 1)), "'" + graph_.values[index.value].name + "' of the model's file indexes it");
      }
    }
  }

  // Where a result has the shape of the first operand and no rule tells a dimension of the one from that of the other, because both stay whole, it goes on having it.
  void keep_shape(NodeId id) {
    const Node& node = graph_.nodes[id];
    const Rule& rule = atoms_.nodes[id].rule;
    const auto is_whole = [&](const TensorRule& tensor, std::size_t d) { return tensor.dimensions[d].size() == 1 && rule.factors[tensor.dimensions[d][0]].whole; };
    for (std::size_t r = 0; r < node.results.size() && !node.operands.empty(); ++r) {
      const ValueId operand = node.operands[0].value, result = node.results[r];
      if (graph_.type(result).shape != graph_.type(operand).shape) continue;
      for (std::size_t d = 0; d < graph_.type(result).shape.size(); ++d) {
        if (is_whole(rule.operands[0], d) && is_whole(rule.results[r], d)) keep_difference(operand, d, result, d);
      }
    }
  }

  [[nodiscard]] std::size_t dimension(const Node& node, ValueId of) const {
    const std::int64_t dim = node.integer("dim", 0), rank = graph_.type(of).rank();
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  }

  [[nodiscard]] std::int64_t size(ValueId value, std::size_t d) const { return graph_.type(value).shape[d]; }

  // The class of a dimension that is one atom; kNoId of any other.
  [[nodiscard]] std::uint32_t class_of(ValueId value, std::size_t d) const {
    const AtomShape& shape = atoms_.values[value];
    return d < shape.atoms_of_dimension.size() && shape.atoms_of_dimension[d] == 1 ? made_.of[value][shape.first_atom(d)] : kNoId;
  }

  void slice(const Node& node, std::size_t d) {
    const ValueId from = node.operands[0].value, to = node.results[0];
    if (size(from, d) == size(to, d) || node.integer("step", 1) != 1) return;
    std::int64_t start = node.integer("start", 0);
    if (start < 0) start += size(from, d);
    if (size(from, d) - size(to, d) <= kFew) return keep_difference(from, d, to, d);
    tie(class_of(from, d), class_of(to, d), true, {start, start + size(to, d)});
  }

  void pieces(ValueId joint, const std::vector<ValueId>& of, std::size_t d) {
    std::vector<std::int64_t> cuts{0};
    const auto large = std::ranges::count_if(of, [&](ValueId piece) { return d < graph_.type(piece).shape.size() && size(piece, d) > kFew; });
    for (const ValueId piece : of) {
      if (d >= graph_.type(piece).shape.size()) return;
      cuts.push_back(cuts.back() + size(piece, d));
    }
    for (const ValueId piece : of) {
      if (large != 1) tie(class_of(joint, d), class_of(piece, d), true, cuts);
      else if (size(piece, d) > kFew) tie(class_of(joint, d), class_of(piece, d), false, {});
    }
  }

  void keep_difference(ValueId a, std::size_t d, ValueId b, std::size_t e) {
    if (std::abs(size(a, d) - size(b, e)) <= kFew) tie(class_of(a, d), class_of(b, e), false, {});
  }

  // A table of positions has as many rows as there are positions, or few more. Of tokens, which the user feeds, it may have any number.
  void look_up(const Node& node) {
    const ValueId table = node.operands[0].value, index = node.operands[1].value;
    if (is_fed(index)) return;
    const std::uint32_t rows = class_of(table, 0);
    const std::vector<std::int64_t>& shape = graph_.type(index).shape;
    const bool counts = !is_of_file(index) && !shape.empty() && class_of(index, shape.size() - 1) != kNoId && std::abs(size(table, 0) - shape.back()) <= kFew;
    if (counts) return tie(rows, class_of(index, shape.size() - 1), false, {});
    fix_dimension(table, 0, "'" + graph_.values[index].name + "', which indexes it, is computed");
  }

  // Whether these integers come from the user, and were not counted.
  [[nodiscard]] bool is_fed(ValueId value) const {
    std::set<ValueId> seen;
    bool fed = false;
    std::vector<ValueId> left{value};
    while (!left.empty()) {
      const ValueId here = left.back();
      left.pop_back();
      if (!seen.insert(here).second) continue;
      const NodeId producer = graph_.values[here].producer;
      if (producer == kNoId) {
        fed |= std::ranges::any_of(graph_.sources, [&](const Source& source) { return source.value == here && source.kind == SourceKind::user_input; });
        continue;
      }
      const Node& node = graph_.nodes[producer];
      if (node.op == "aten.cumsum") return false;
      for (const Operand& operand : node.operands) left.push_back(operand.value);
    }
    return fed;
  }

  // Whether it is, seen through views, a constant or a buffer.
  [[nodiscard]] bool is_of_file(ValueId value) const {
    for (NodeId producer = graph_.values[value].producer; producer != kNoId; producer = graph_.values[value].producer) {
      const Node& node = graph_.nodes[producer];
      if (node.operands.size() != 1) return false;
      value = node.operands[0].value;
    }
    return std::ranges::any_of(graph_.sources, [&](const Source& source) {
      return source.value == value && (source.kind == SourceKind::constant || source.kind == SourceKind::buffer);
    });
  }

  void tie(std::uint32_t one, std::uint32_t other, bool scales, std::vector<std::int64_t> divided) {
    if (one != kNoId && other != kNoId && one != other) made_.ties.push_back({one, other, scales, std::move(divided)});
  }

  void fix_all(ValueId value, const std::string& why) { fix(value, 0, why); }

  void fix_dimension(ValueId value, std::size_t d, const std::string& why) {
    const AtomShape& shape = atoms_.values[value];
    for (std::size_t atom = 0; atom < made_.of[value].size(); ++atom) {
      if (shape.dimension_of(atom) == d) made_.fixed.try_emplace(made_.of[value][atom], why);
    }
  }

  // Dimensions from this one on.
  void fix(ValueId value, std::size_t from, const std::string& why) {
    const AtomShape& shape = atoms_.values[value];
    for (std::size_t atom = 0; atom < made_.of[value].size(); ++atom) {
      if (shape.dimension_of(atom) >= from) made_.fixed.try_emplace(made_.of[value][atom], why);
    }
  }

  const Graph& graph_;
  const AtomizedGraph& atoms_;
  SizeClasses& made_;
};

}  // namespace

SizeClasses size_classes(const Graph& graph, const AtomizedGraph& atoms) {
  SizeClasses made;
  const SizeJoins joins(graph, atoms);
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    std::vector<std::uint32_t>& of = made.of.emplace_back();
    for (std::size_t atom = 0; atom < atoms.values[value].sizes.size(); ++atom) {
      of.push_back(joins.class_of(value, atom));
      made.sizes.emplace(of.back(), atoms.values[value].sizes[atom]);
    }
  }
  TieFinder(graph, atoms, made).run();
  return made;
}

}  // namespace meshwright
