#include "program/copies.h"

#include <algorithm>

namespace meshwright {

Copies::Conversions Copies::forget_operands(const Graph& graph, const std::vector<NodeId>& nodes, const Recomputation& again) {
  Conversions kept;
  for (const NodeId id : nodes) {
    for (const Operand& operand : graph.nodes[id].operands) {
      if (made_.contains(operand.value) && !again.makes(operand.value)) forget(operand.value, kept);
    }
  }
  return kept;
}

void Copies::forget(ValueId id, Conversions& kept) {
  const ProgramValueId from = settled(id);
  for (const NodeOperand& user : keepers_of(id)) {
    if (const auto found = converted_.find({from, layout_for(user)}); found != converted_.end()) kept.insert(*found);
  }
  std::erase_if(converted_, [&](const auto& converted) { return converted.first.first == from; });
}

void Copies::restore(const Conversions& kept) {
  for (const auto& [converted, to] : kept) converted_[converted] = to;
}

void Copies::forget_copy(ValueId id, const Layout& layout, const std::function<ProgramValueId(ProgramValueId, const Layout&)>& convert) {
  if (is_there(id, layout)) return;
  const ProgramValueId before = settled(id);
  const Layout settles = layout_of(before);
  again_.insert({id, layout});
  converted_.erase({before, layout});
  if (is_there(id, settles)) return;
  again_.insert({id, settles});
  converted_.erase({made(id), settles});
  const ProgramValueId now = convert(made(id), settles);
  for (const NodeOperand& user : keepers_of(id)) {
    const auto kept = converted_.find({before, layout_for(user)});
    if (kept != converted_.end()) converted_[{now, kept->first.second}] = kept->second;
  }
}

const std::vector<NodeOperand>& Copies::keepers_of(ValueId id) const {
  static const std::vector<NodeOperand> kNone;
  const auto found = keepers_.find(id);
  return found != keepers_.end() ? found->second : kNone;
}

// From which its uses convert it.
ProgramValueId Copies::settled(ValueId id) const {
  const PlannedFork* fork = index_.fork(id);
  return fork == nullptr || layout_of(made(id)) == fork->layouts.value ? made(id) : converted_.at({made(id), fork->layouts.value});
}

bool Copies::is_there(ValueId id, const Layout& layout) const {
  return layout_of(made(id)) == layout || again_.contains({id, layout}) || std::ranges::any_of(keepers_of(id), [&](const NodeOperand& user) { return layout_for(user) == layout; });
}

}  // namespace meshwright
