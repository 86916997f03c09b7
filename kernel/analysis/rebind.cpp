#include "meshwright/rebind.h"

#include <algorithm>
#include <set>

#include "analysis/size_joins.h"
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
        joins_(graph, atoms),
        made_(graph) {
    for (const Source& source : graph.sources) {
      const TensorType& type = graph.type(source.value);
      if (source.kind != SourceKind::user_input || type.rank() == 0 || type.shape[0] != old_batch_) continue;
      const AtomShape& shape = atoms.values[source.value];
      for (std::size_t atom = 0; atom < shape.atoms_of_dimension[0]; ++atom)
        batch_classes_.insert(joins_.class_of(source.value, atom));
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
  // --- sizes ---

  Status resize(ValueId id) {
    const AtomShape& shape = atoms_.values[id];
    std::vector<std::int64_t>& sizes = made_.values[id].type.shape;
    std::size_t atom = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      std::int64_t of_batch = 1;
      for (std::size_t i = 0; i < shape.atoms_of_dimension[d]; ++i, ++atom) {
        if (batch_classes_.contains(joins_.class_of(id, atom))) of_batch *= shape.sizes[atom];
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
    if (Status status = check_parts(node); !status) return status;
    const OpCall now = make_call(made_, node);
    node = node_of_sizes(make_call(old_, old_.nodes[id]), now.operands, now.results);
    return Done{};
  }

  // Slices and splits of the batch itself: all of it, or an error.
  Status check_parts(const Node& node) const {
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
  const SizeJoins joins_;
  Graph made_;
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
