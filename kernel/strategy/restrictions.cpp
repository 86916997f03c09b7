#include "strategy/restrictions.h"

#include <algorithm>

namespace meshwright {

namespace {

// Classes of the atoms along which the experts of layers lie: of what the exchanges of rules lead to.
std::set<std::uint32_t> expert_atoms(const ModelAnalysis& model) {
  std::set<std::uint32_t> experts;
  for (NodeId id = 0; id < model.atoms->nodes.size(); ++id) {
    const AtomizedNode& atoms = model.atoms->nodes[id];
    for (const Exchange& exchange : atoms.rule.exchanges) {
      if (!atoms.ruled || atoms.rule.factors[exchange.to].whole) continue;
      const std::vector<Operand>& operands = model.graph->nodes[id].operands;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const ValueId value = operands[i].value;
        for (std::size_t atom = 0; atom < atoms.factor_atoms[exchange.to].size(); ++atom) {
          const std::uint32_t at = find_atom(atoms, atoms.rule.operands[i], model.atoms->values[value], exchange.to, atom);
          if (at != kNoId) experts.insert(model.atoms->classes[value][at]);
        }
      }
    }
  }
  return experts;
}

}  // namespace

std::set<std::uint32_t> batch_atoms(const ModelAnalysis& model, const StagePart* part) {
  std::set<std::uint32_t> batch;
  for (const Source& source : model.graph->sources) {
    const AtomShape& shape = model.atoms->values[source.value];
    const auto add = [&](std::size_t dimension, bool all) {
      if (dimension >= shape.atoms_of_dimension.size() || shape.atoms_of_dimension[dimension] == 0) return;
      const auto first = model.atoms->classes[source.value].begin() + static_cast<std::ptrdiff_t>(shape.first_atom(dimension));
      batch.insert(first, first + (all ? shape.atoms_of_dimension[dimension] : 1));
    };
    if (source.kind == SourceKind::user_input) add(0, true);
    if (source.kind != SourceKind::received || part == nullptr) continue;
    const auto boundary = std::ranges::find(part->boundaries, source.names.front(), &StageBoundary::value);
    if (boundary != part->boundaries.end() && boundary->batch) add(boundary->batch->dimension, boundary->batch->alone);
  }
  return batch;
}

Restrictions::Restrictions(const ProblemInput& input)
    : input_(input), batch_(batch_atoms(input.model, input.part)), experts_(expert_atoms(input.model)), is_weight_(input.graph().values.size(), false), of_experts_(input.graph().values.size(), false) {
  for (ValueId id = 0; id < of_experts_.size(); ++id) {
    const auto& classes = input.atoms().classes[id];
    of_experts_[id] = std::ranges::any_of(classes, [&](std::uint32_t atom) { return experts_.contains(atom); }) && !has_batch(id);
  }
  for (const Source& source : input.graph().sources) {
    const AtomShape& shape = input.atoms().values[source.value];
    if (source.kind == SourceKind::parameter) {
      // A class token of 1x1x768 is a vector.
      is_weight_[source.value] = std::count_if(shape.atoms_of_dimension.begin(), shape.atoms_of_dimension.end(),
                                               [](std::uint8_t atoms) { return atoms > 0; }) >= 2;
    }
  }
}

bool Restrictions::has_batch(ValueId id) const {
  const auto& classes = input_.atoms().classes[id];
  return std::any_of(classes.begin(), classes.end(), [&](std::uint32_t atom) { return batch_.contains(atom); });
}

bool Restrictions::allow_batch(ValueId id, const PortLayouts& port) const {
  const bool batch = has_batch(id);
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (!has(input_.filter.batch_axes, axis)) continue;
    const Placement placement = port.value[axis];
    if (batch ? !(placement.is_shard() && is_batch(id, placement.atom())) : !placement.is_replicate() && !(lies_apart(id, axis) && is_apart(id, placement))) return false;
  }
  return true;
}

bool Restrictions::allow_context(ValueId id, const PortLayouts& port) const {
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (!has(input_.filter.context_axes, axis) || !port.value[axis].is_shard()) continue;
    if (lies_apart(id, axis) && is_apart(id, port.value[axis])) continue;
    if (is_weight_[id] || is_batch(id, port.value[axis].atom())) return false;
  }
  return true;
}

bool Restrictions::allow_experts(ValueId id, const PortLayouts& port) const {
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (lies_apart(id, axis) && !is_apart(id, port.value[axis])) return false;
  }
  return true;
}

bool Restrictions::limits_weight(ValueId id) const { return (input_.filter.sharded_weight_axes | input_.filter.context_axes) != 0 && is_weight_[id]; }

bool Restrictions::allow_node(NodeId id, const CallLayouts& call) const {
  if (!input_.atoms().nodes[id].ruled) return true;  // it runs replicated, whatever is wanted of the others
  const Node& node = input_.graph().nodes[id];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId operand = node.operands[i].value;
    if (!allow_batch(operand, call.operands[i]) || !allow_context(operand, call.operands[i]) || !allow_experts(operand, call.operands[i])) return false;
    for (std::size_t axis = 0; axis < input_.mesh.rank() && is_weight_[operand]; ++axis) {
      if (has(input_.filter.sharded_weight_axes, axis) && !call.operands[i].value[axis].is_shard()) return false;
    }
  }
  return true;
}

bool Restrictions::allow_parameter(ValueId id, const ParameterStrategy& strategy) const {
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (lies_apart(id, axis)) {
      if (!is_apart(id, strategy.compute[axis])) return false;
      continue;
    }
    if (has(input_.filter.batch_axes, axis) && !strategy.compute[axis].is_replicate()) return false;
    if (has(input_.filter.sharded_weight_axes, axis) && is_weight_[id] && !strategy.compute[axis].is_shard()) return false;
    if (has(input_.filter.context_axes, axis) && is_weight_[id] && strategy.compute[axis].is_shard()) return false;
  }
  return true;
}

std::string Restrictions::key(ValueId id) const {
  std::string key = experts_key(id);
  if ((input_.filter.batch_axes | input_.filter.context_axes) == 0) return key;
  key += " batch ";
  for (std::size_t atom = 0; atom < input_.atoms().classes[id].size(); ++atom) key += is_batch(id, atom) ? '1' : '0';
  return key;
}

std::string Restrictions::experts_key(ValueId id) const {
  if (input_.filter.expert_axes == 0 || !of_experts_[id]) return "";
  std::string key = " experts ";
  for (std::size_t atom = 0; atom < input_.atoms().classes[id].size(); ++atom) key += is_expert(id, atom) ? '1' : '0';
  return key;
}

std::string Restrictions::text() const {
  std::int64_t batch = 1, weights = 1, context = 1, experts = 1;
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (has(input_.filter.batch_axes, axis)) batch *= input_.mesh.axes[axis].size;
    if (has(input_.filter.sharded_weight_axes, axis)) weights *= input_.mesh.axes[axis].size;
    if (has(input_.filter.context_axes, axis)) context *= input_.mesh.axes[axis].size;
    if (has(input_.filter.expert_axes, axis)) experts *= input_.mesh.axes[axis].size;
  }
  std::string text = "cannot be split";
  if (batch > 1) text += " along the batch over " + std::to_string(batch) + " devices";
  if (batch > 1 && weights > 1) text += " with";
  if (weights > 1) text += " its weights in shards over " + std::to_string(weights) + " devices";
  if (context > 1) text += std::string(batch > 1 || weights > 1 ? " and" : "") + " with whole weights and no batch over " + std::to_string(context) + " devices";
  if (experts > 1) text += std::string(batch > 1 || weights > 1 || context > 1 ? " and" : "") + " with the experts of each layer apart over " + std::to_string(experts) + " devices";
  return text;
}

}  // namespace meshwright
