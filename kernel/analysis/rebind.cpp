#include "meshwright/rebind.h"

#include <algorithm>
#include <map>
#include <set>

#include "meshwright/atoms.h"

namespace meshwright {

namespace {

class Rebinding {
 public:
  Rebinding(const Graph& graph, const AtomizedGraph& atoms, const OpTable& ops, const Source& input, std::int64_t batch)
      : old_(graph),
        atoms_(atoms),
        ops_(ops),
        old_batch_(graph.type(input.value).shape[0]),
        batch_(batch),
        made_(graph) {
    join_whole_factors();
    join_enumerated_dimensions();
    for (const Source& source : graph.sources) {
      const TensorType& type = graph.type(source.value);
      if (source.kind != SourceKind::user_input || type.rank() == 0 || type.shape[0] != old_batch_) continue;
      const AtomShape& shape = atoms.values[source.value];
      for (std::size_t atom = 0; atom < shape.atoms_of_dimension[0]; ++atom)
        batch_classes_.insert(class_of(source.value, atom));
    }
  }

  Result<Graph> run() {
    for (ValueId id = 0; id < old_.values.size(); ++id) {
      if (Status status = resize(id); !status) return status.error();
    }
    for (const Source& source : old_.sources) {
      if (source.kind == SourceKind::user_input || made_.type(source.value) == old_.type(source.value)) continue;
      return bad_input("'" + old_.values[source.value].name + "' in the file has the batch of " +
                       std::to_string(old_batch_) + " in its shape; export the model again with a batch of " +
                       std::to_string(batch_));
    }
    for (NodeId id = 0; id < old_.nodes.size(); ++id) {
      Status status = rewrite(id);
      if (status) status = check(id);
      if (!status) return add_context(old_.nodes[id].op + " at '" + old_.nodes[id].name + "'", status.error());
    }
    return std::move(made_);
  }

 private:
  // --- which atoms are the batch ---

  // Atoms that are the same one by a rule have one class; but rules say nothing of factors that stay whole.
  void join_whole_factors() {
    for (NodeId id = 0; id < old_.nodes.size(); ++id) {
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
      const Node& node = old_.nodes[id];
      for (std::size_t i = 0; i < node.operands.size(); ++i) visit(rule.operands[i], node.operands[i].value);
      for (std::size_t i = 0; i < node.results.size(); ++i) visit(rule.results[i], node.results[i]);
    }
  }

  // A table that 0 .. n-1 indexes has n rows because something else has n: `mask[arange(batch), ...]`.
  void join_enumerated_dimensions() {
    for (const Node& node : old_.nodes) {
      if (node.op != "aten.index.Tensor") continue;
      for (const Operand& operand : node.operands) {
        const std::size_t dot = operand.name.find('.');
        if (dot == std::string::npos) continue;
        const std::size_t dimension = std::stoul(operand.name.substr(dot + 1));
        const ValueId numbers = enumeration_behind(operand.value);
        if (numbers != kNoId && old_.type(numbers).shape[0] == old_.type(node.operands[0].value).shape[dimension]) {
          join(numbers, 0, node.operands[0].value, dimension);
        }
      }
    }
  }

  // The arange(n) whose numbers stand in `value`, in another shape; kNoId if there is none.
  ValueId enumeration_behind(ValueId value) const {
    while (old_.values[value].producer != kNoId) {
      const Node& node = old_.nodes[old_.values[value].producer];
      if (node.op == "aten.arange" || node.op.starts_with("aten.arange.start")) {
        return node.integer("start", 0) == 0 && node.integer("step", 1) == 1 ? value : kNoId;
      }
      const bool keeps =
          node.op == "aten.unsqueeze" || node.op == "aten.view" || node.op == "aten.expand" ||
          node.op == "aten._to_copy" ||
          (node.op.starts_with("aten.add.") && node.operands.size() == 1 && node.number("other", 1) == 0);
      if (!keeps) return kNoId;
      value = node.operands[0].value;
    }
    return kNoId;
  }

  void join(ValueId a, std::size_t a_dimension, ValueId b, std::size_t b_dimension) {
    const AtomShape &of_a = atoms_.values[a], &of_b = atoms_.values[b];
    const std::size_t count = of_a.atoms_of_dimension[a_dimension];
    if (of_b.atoms_of_dimension[b_dimension] != count) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (of_a.sizes[of_a.first_atom(a_dimension) + i] != of_b.sizes[of_b.first_atom(b_dimension) + i]) return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t x = class_of(a, of_a.first_atom(a_dimension) + i),
                          y = class_of(b, of_b.first_atom(b_dimension) + i);
      if (x != y) parent_[std::max(x, y)] = std::min(x, y);
    }
  }

  std::uint32_t class_of(ValueId value, std::size_t atom) const {
    std::uint32_t at = atoms_.classes[value][atom];
    for (auto next = parent_.find(at); next != parent_.end(); next = parent_.find(at)) at = next->second;
    return at;
  }

  // --- sizes ---

  Status resize(ValueId id) {
    const AtomShape& shape = atoms_.values[id];
    std::vector<std::int64_t>& sizes = made_.values[id].type.shape;
    std::size_t atom = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      std::int64_t of_batch = 1;
      for (std::size_t i = 0; i < shape.atoms_of_dimension[d]; ++i, ++atom) {
        if (batch_classes_.contains(class_of(id, atom))) of_batch *= shape.sizes[atom];
      }
      if (of_batch == 1) continue;
      if (of_batch != old_batch_) {
        return bad_input("'" + old_.values[id].name + "' has a part of the batch alone in dimension " +
                         std::to_string(d) +
                         ", so that it can't be told what another batch does to it; export the model again");
      }
      sizes[d] = sizes[d] / old_batch_ * batch_;
    }
    return Done{};
  }

  bool grows(ValueId id, std::size_t dimension) const {
    return made_.type(id).shape[dimension] != old_.type(id).shape[dimension];
  }

  // --- sizes in attributes ---

  Status rewrite(NodeId id) {
    Node& node = made_.nodes[id];
    if (node.results.empty()) return Done{};
    const ValueId result = node.results[0];
    const TensorType &before = old_.type(result), &now = made_.type(result);
    for (const char* name : {"size", "shape"}) {
      std::vector<std::int64_t> sizes = node.integers(name);
      if (sizes.size() != before.shape.size()) continue;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        if (sizes[d] == before.shape[d]) sizes[d] = now.shape[d];
      }
      if (!sizes.empty()) node.attributes[name] = sizes;
    }
    if (node.op.starts_with("aten.arange") && now != before) {
      node.attributes["end"] = node.integer("start", 0) + node.integer("step", 1) * now.shape[0];
    }
    if (node.op == "aten.repeat") rewrite_repeats(node, before, now);
    return rewrite_parts(node);
  }

  void rewrite_repeats(Node& node, const TensorType& before, const TensorType& now) const {
    std::vector<std::int64_t> repeats = node.integers("repeats");
    const std::size_t rank = static_cast<std::size_t>(old_.type(node.operands[0].value).rank());
    for (std::size_t d = 0; d < repeats.size(); ++d) {
      const std::size_t ahead = repeats.size() - rank;
      const bool operand_grows = d >= ahead && grows(node.operands[0].value, d - ahead);
      if (now.shape[d] != before.shape[d] && !operand_grows) repeats[d] = repeats[d] / old_batch_ * batch_;
    }
    node.attributes["repeats"] = repeats;
  }

  // Slices and splits of the batch itself: all of it, or an error.
  Status rewrite_parts(Node& node) const {
    const bool slices = node.op.starts_with("aten.slice"),
               splits = node.op.starts_with("aten.split") || node.op == "aten.chunk";
    if ((!slices && !splits) || node.operands.empty()) return Done{};
    const ValueId operand = node.operands[0].value;
    const std::int64_t dim = node.integer("dim", 0), rank = old_.type(operand).rank();
    const auto dimension = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
    if (!grows(operand, dimension)) return Done{};
    const std::int64_t size = old_.type(operand).shape[dimension];
    const bool all =
        slices && node.integer("start", 0) == 0 && node.integer("end", size) >= size && node.integer("step", 1) == 1;
    if (!all)
      return bad_input("it takes a part of the batch; export the model again with a batch of " +
                       std::to_string(batch_));
    if (node.integer("end", size) == size && node.attributes.contains("end"))
      node.attributes["end"] = made_.type(operand).shape[dimension];
    return Done{};
  }

  // What had a rule has the same one for the new sizes.
  Status check(NodeId id) const {
    const OpFamily* family = ops_.find(made_.nodes[id].op);
    if (family == nullptr || !atoms_.nodes[id].ruled) return check_unruled(id);
    const Result<Rule> now = family->rule(make_call(made_, made_.nodes[id]));
    if (!now) return bad_input("it does not bear a batch of " + std::to_string(batch_) + ": " + now.error().message);
    if (batch_ > 1 && atoms_.nodes[id].rule.factors.size() != now->factors.size())
      return bad_input("it does something else with a batch of " + std::to_string(batch_));
    return Done{};
  }

  // An op that nobody knows may do anything with the batch.
  Status check_unruled(NodeId id) const {
    const Node& node = old_.nodes[id];
    bool same = true;
    for (const Operand& operand : node.operands) same &= made_.type(operand.value) == old_.type(operand.value);
    if (same) return Done{};
    return bad_input("no rule says what it does with the batch; export the model again with a batch of " +
                     std::to_string(batch_));
  }

  const Graph& old_;
  const AtomizedGraph& atoms_;
  const OpTable& ops_;
  const std::int64_t old_batch_, batch_;
  Graph made_;
  std::map<std::uint32_t, std::uint32_t> parent_;  // of classes that whole factors join
  std::set<std::uint32_t> batch_classes_;
};

}  // namespace

Result<Graph> rebind_batch(const Graph& graph, const OpTable& ops, std::int64_t batch) {
  if (batch < 1) return bad_input("a batch of " + std::to_string(batch) + " is asked for; it must be at least 1");
  const auto input = std::find_if(graph.sources.begin(), graph.sources.end(), [&](const Source& source) {
    return source.kind == SourceKind::user_input && graph.type(source.value).rank() > 0;
  });
  if (input == graph.sources.end()) return bad_input("the model has no input with a batch");
  const std::int64_t exported = graph.type(input->value).shape[0];
  if (exported == batch) return graph;
  if (exported == 1) {
    return bad_input(
        "the model was exported with a batch of 1, which cannot be told from sizes of 1; export it with a batch of at "
        "least 2");
  }
  Result<AtomizedGraph> atoms = atomize(graph, ops);
  if (!atoms) return atoms.error();
  Result<Graph> rebound = Rebinding(graph, *atoms, ops, *input, batch).run();
  if (!rebound) return rebound;
  if (Status status = validate(*rebound); !status)
    return internal_error("rebinding the batch: " + status.error().message);
  return rebound;
}

}  // namespace meshwright
