#include "microbatches.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "meshwright/atoms.h"
#include "meshwright/rebind.h"
#include "meshwright/training_graph.h"

namespace meshwright {

namespace {

// Finds the ops that mix samples.
class CouplingFinder {
 public:
  CouplingFinder(const Graph& graph, const AtomizedGraph& atoms, const TrainingGraph& training, std::int64_t batch)
      : graph_(graph), atoms_(atoms), contributions_(training.contributions) {
    for (const Source& source : graph.sources) {
      const TensorType& type = graph.type(source.value);
      if (source.kind != SourceKind::user_input || type.rank() == 0 || type.shape[0] != batch) continue;
      const auto& classes = atoms.classes[source.value];
      batch_.insert(classes.begin(), classes.begin() + atoms.values[source.value].atoms_of_dimension[0]);
    }
  }

  [[nodiscard]] std::optional<NodeId> find() const {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (couples(id)) return id;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool is_batch(ValueId value, std::size_t atom) const { return batch_.contains(atoms_.classes[value][atom]); }

  // A loss may average over samples; anything else that loses them has mixed them.
  [[nodiscard]] bool couples(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (contributions_[id].empty()) return false;  // no gradient goes through it
    const bool scalar = std::all_of(node.results.begin(), node.results.end(), [&](ValueId v) {
      return !graph_.values[v].requires_gradient || graph_.type(v).elements() == 1;
    });
    for (const ValueId result : node.results) {
      if (batch_dimensions(result) > 1) return true;
    }
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      if (contributions_[id][i] != kNoId && loses_batch(id, i, operand, scalar)) return true;
    }
    return false;
  }

  [[nodiscard]] int batch_dimensions(ValueId value) const {
    const AtomShape& shape = atoms_.values[value];
    int count = 0;
    std::size_t atom = 0;
    for (const std::uint8_t atoms : shape.atoms_of_dimension) {
      bool batch = false;
      for (std::uint8_t a = 0; a < atoms; ++a, ++atom) batch |= is_batch(value, atom);
      count += batch ? 1 : 0;
    }
    return count;
  }

  [[nodiscard]] bool loses_batch(NodeId id, std::size_t operand, ValueId value, bool scalar) const {
    const AtomizedNode& node = atoms_.nodes[id];
    const TensorRule& rule = node.rule.operands[operand];
    for (FactorId factor = 0; factor < node.rule.factors.size(); ++factor) {
      if (!is_batch_factor(node, rule, value, factor)) continue;
      if (node.rule.factors[factor].whole) return true;
      if (!scalar && !stays(node.rule, factor)) return true;
      if (!scalar && std::ranges::find(node.rule.coupled, factor) != node.rule.coupled.end()) return true;
    }
    return false;
  }

  [[nodiscard]] bool is_batch_factor(const AtomizedNode& node, const TensorRule& rule, ValueId value, FactorId factor) const {
    const AtomShape& shape = atoms_.values[value];
    if (!node.rule.factors[factor].whole) {
      for (std::size_t a = 0; a < node.factor_atoms[factor].size(); ++a) {
        const std::uint32_t at = find_atom(node, rule, shape, factor, a);
        if (at != kNoId && is_batch(value, at)) return true;
      }
      return false;
    }
    std::size_t atom = 0;
    for (std::size_t d = 0; d < rule.dimensions.size(); ++d) {
      const std::size_t end = atom + shape.atoms_of_dimension[d];
      for (; atom < end; ++atom) {
        if (is_batch(value, atom) && rule.dimensions[d] == std::vector<FactorId>{factor}) return true;
      }
    }
    return false;
  }

  [[nodiscard]] static bool stays(const Rule& rule, FactorId factor) {
    for (const TensorRule& result : rule.results) {
      for (const auto& dimension : result.dimensions) {
        if (std::find(dimension.begin(), dimension.end(), factor) != dimension.end()) return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const std::vector<std::vector<ValueId>>& contributions_;
  std::set<std::uint32_t> batch_;  // classes of atoms
};

// "1, 2, 4, 8"
std::string divisors(std::int64_t number) {
  std::string text;
  for (std::int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return text;
}

}  // namespace

Result<Graph> cut_into_microbatches(Graph graph, const OpTable& ops, std::int64_t microbatches, bool allow_coupling) {
  if (microbatches == 1) return graph;
  const auto input = std::find_if(graph.sources.begin(), graph.sources.end(), [&](const Source& source) {
    return source.kind == SourceKind::user_input && graph.type(source.value).rank() > 0;
  });
  if (input == graph.sources.end()) return bad_input("the model has no input with a batch, so that it can't be cut into microbatches");
  const std::int64_t batch = graph.type(input->value).shape[0];
  const std::string text = "a batch of " + std::to_string(batch) + " can't be cut into " + std::to_string(microbatches) + " microbatches";
  if (batch % microbatches != 0) return bad_input(text + "; it can be into " + divisors(batch));
  if (!allow_coupling) {
    Result<AtomizedGraph> atoms = atomize(graph, ops);
    if (!atoms) return atoms.error();
    Result<TrainingGraph> training = differentiate(graph, ops);
    if (!training) return training.error();
    if (const std::optional<NodeId> node = CouplingFinder(graph, *atoms, *training, batch).find()) {
      return bad_input(text + ": " + graph.nodes[*node].op + " at '" + graph.nodes[*node].name +
                       "' mixes the samples of a batch, and gives something else for parts of it; batch_coupling = "
                       "\"allow\" in [train] lets it");
    }
  }
  Result<Graph> cut = rebind_batch(graph, ops, batch / microbatches);
  if (!cut) return add_context(text, cut.error());
  return cut;
}

}  // namespace meshwright
