#include "strategy/constants.h"

#include <algorithm>
#include <limits>

#include "strategy/call_pricer.h"
#include "strategy/enumerate.h"

namespace meshwright {

ConstantPricer::ConstantPricer(const ProblemInput& input, ConstantKinds& kinds)
    : input_(input),
      graph_(training_graph(input.model)),
      atoms_(training_atoms(input.model)),
      mesh_(input.mesh),
      profile_(input.profile),
      uses_(graph_.values.size(), 0),
      kind_of_key_(kinds) {
  for (const Node& node : graph_.nodes) {
    for (const Operand& operand : node.operands) ++uses_[operand.value];
  }
}

bool ConstantPricer::is_at_hand(ValueId value) const {
  const NodeId producer = graph_.values[value].producer;
  if (producer == kNoId) return true;
  // What comes with a differentiable result (the positions that topk gives) is made once, by its own variable.
  const std::vector<ValueId>& results = graph_.nodes[producer].results;
  return std::any_of(results.begin(), results.end(), [&](ValueId result) { return graph_.values[result].requires_gradient; });
}

std::uint32_t ConstantPricer::kind(ValueId value) {
  if (const auto known = kinds_.find(value); known != kinds_.end()) return known->second;
  std::string key;
  if (!is_at_hand(value)) {
    const NodeId producer = graph_.values[value].producer;
    const Node& node = graph_.nodes[producer];
    key = call_key(node, atoms_.nodes[producer]) + fused_key(fused_call(input_.model, input_.training, producer));
    for (const Operand& operand : node.operands) {
      key += " | " + shape_key(operand.value) + " " + std::to_string(kind(operand.value)) + " of " +
             std::to_string(uses_[operand.value]);
    }
    for (const ValueId result : node.results) key += (result == value ? " >> " : " > ") + shape_key(result);
  }
  const std::uint32_t number = kind_of_key_.try_emplace(std::move(key), static_cast<std::uint32_t>(kind_of_key_.size())).first->second;
  kinds_.emplace(value, number);
  return number;
}

ConstantPricer::Made ConstantPricer::made(ValueId value, const Layout& layout) {
  if (is_at_hand(value)) return {};
  const auto known = known_.find({value, layout});
  if (known != known_.end()) return known->second;
  const Made made = make(value, layout);
  known_.emplace(std::pair{value, layout}, made);
  return made;
}

const std::vector<ConstantPricer::Way>& ConstantPricer::ways(NodeId id) {
  const auto [found, inserted] = ways_.try_emplace(id);
  if (!inserted) return found->second;
  const Node& node = graph_.nodes[id];
  std::vector<const AtomShape*> operands, results;
  for (const Operand& operand : node.operands) operands.push_back(&atoms_.values[operand.value]);
  for (const ValueId result : node.results) results.push_back(&atoms_.values[result]);
  CallPricer pricer(input_, graph_, atoms_, id);
  for (CallLayouts& call : enumerate_strategies(atoms_.nodes[id], mesh_, operands, results, std::vector<bool>(operands.size(), false))) {
    const auto partial = [](const PortLayouts& port) { return port.value.has_partial(); };
    if (std::any_of(call.results.begin(), call.results.end(), partial)) continue;
    const Result<CallPrice> price = pricer.price(call);
    if (!price) continue;  // a family that cannot say what one rank executes
    found->second.push_back({std::move(call), price->seconds + price->communication_seconds});
  }
  return found->second;
}

ConstantPricer::Made ConstantPricer::make(ValueId value, const Layout& layout) {
  const NodeId id = graph_.values[value].producer;
  const Node& node = graph_.nodes[id];
  const auto port = static_cast<std::size_t>(std::find(node.results.begin(), node.results.end(), value) - node.results.begin());
  const ConversionProblem conversion{mesh_, atoms_.values[value], profile_,
                                     size_bytes(graph_.type(value).dtype), false};
  Made best{std::numeric_limits<double>::infinity(), nullptr};
  for (const Way& way : ways(id)) {
    // The node may make more than is wanted, and each device then keeps its part.
    const Layout& made = way.call.results[port].value;
    double seconds = way.seconds;
    bool usable = true;
    Layout here = made;
    for (std::size_t axis = 0; axis < layout.mesh_rank() && usable; ++axis) {
      if (made[axis] == layout[axis]) continue;
      usable = made[axis].is_replicate();
      const MoveKind kind = layout[axis].is_partial() ? MoveKind::keep_one : MoveKind::slice;
      Move slice{kind, static_cast<std::uint8_t>(axis), 0, false, false, here};
      slice.result.place(axis, layout[axis]);
      seconds += usable ? to_seconds(move_price(conversion, here, slice).ticks) : 0;
      here = slice.result;
    }
    if (!usable) continue;
    for (std::size_t i = 0; i < node.operands.size() && seconds < best.seconds; ++i) {
      const ValueId operand = node.operands[i].value;
      seconds += share(operand, handed_layout(atoms_.nodes[id], way.call, i));
    }
    if (seconds < best.seconds) best = {seconds, &way.call};
  }
  return best;
}

}  // namespace meshwright
