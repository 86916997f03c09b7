// Strategies from a rule: where each mesh axis may go, and the layouts and gradient layouts that follow
// (DESIGN §2, "Sharding rules").
#include "strategy/enumerate.h"

#include <tuple>

namespace meshwright {

std::vector<AxisChoice> axis_choices(const AtomizedNode& node, const std::vector<bool>& operand_gradients) {
  std::vector<AxisChoice> choices;
  choices.push_back({});
  for (FactorId factor = 0; factor < node.rule.factors.size(); ++factor) {
    if (node.rule.factors[factor].whole) continue;
    for (std::size_t atom = 0; atom < node.factor_atoms[factor].size(); ++atom) {
      choices.push_back({AxisUse::factor, factor, static_cast<std::uint8_t>(atom), 0});
    }
  }
  for (std::size_t exchange = 0; exchange < node.rule.exchanges.size(); ++exchange) {
    const FactorId from = node.rule.exchanges[exchange].from;
    for (std::size_t atom = 0; atom < node.factor_atoms[from].size(); ++atom) {
      choices.push_back({AxisUse::exchange, from, static_cast<std::uint8_t>(atom), static_cast<std::uint8_t>(exchange)});
    }
  }
  bool any_group = false;
  for (std::size_t group = 0; group < node.rule.linear.size(); ++group) {
    bool differentiable = true;
    for (const std::uint32_t operand : node.rule.linear[group]) differentiable &= operand_gradients[operand];
    if (!differentiable) continue;
    any_group = true;
    choices.push_back({AxisUse::pass_forward, 0, 0, static_cast<std::uint8_t>(group)});
  }
  if (any_group) choices.push_back({AxisUse::pass_backward, 0, 0, 0});
  return choices;
}

std::string to_string(const AxisChoice& choice, const AtomizedNode& node) {
  switch (choice.use) {
    case AxisUse::repeat: return "repeat";
    case AxisUse::pass_forward: return choice.group == 0 ? "partial forward" : "partial forward." + std::to_string(choice.group);
    case AxisUse::pass_backward: return "partial backward";
    case AxisUse::factor:
    case AxisUse::exchange: break;
  }
  std::string text = node.rule.factors[choice.factor].name;
  if (choice.use == AxisUse::exchange) text += ">" + node.rule.factors[node.rule.exchanges[choice.group].to].name;
  return node.factor_atoms[choice.factor].size() > 1 ? text + "." + std::to_string(choice.atom) : text;
}

std::optional<AxisChoice> parse_axis_choice(std::string_view text, const AtomizedNode& node) {
  for (const AxisChoice& choice : axis_choices(node, std::vector<bool>(node.rule.operands.size(), true))) {
    if (to_string(choice, node) == text) return choice;
  }
  return std::nullopt;
}

namespace {

bool is_in_results(const Rule& rule, FactorId factor) {
  for (const TensorRule& result : rule.results) {
    if (result.own) continue;
    for (const auto& dimension : result.dimensions) {
      for (const FactorId here : dimension) {
        if (here == factor) return true;
      }
    }
  }
  return false;
}

// Applies one axis' choice to the layouts of a strategy.
class Deriver {
 public:
  Deriver(const AtomizedNode& node, const std::vector<const AtomShape*>& operands,
          const std::vector<const AtomShape*>& results)
      : node_(node), operands_(operands), results_(results) {}

  void apply(CallLayouts& strategy, std::size_t axis, const AxisChoice& choice) const {
    switch (choice.use) {
      case AxisUse::repeat: return;
      case AxisUse::factor: return apply_factor(strategy, axis, choice);
      case AxisUse::exchange: return apply_exchange(strategy, axis, choice);
      case AxisUse::pass_forward: return apply_forward(strategy, axis, choice);
      case AxisUse::pass_backward:
        for (PortLayouts& operand : strategy.operands) operand.gradient.place(axis, Placement::partial_sum());
        for (PortLayouts& result : strategy.results) result.gradient.place(axis, Placement::partial_sum());
    }
  }

 private:
  void apply_factor(CallLayouts& strategy, std::size_t axis, const AxisChoice& choice) const {
    const Factor& factor = node_.rule.factors[choice.factor];
    const bool reduces = !is_in_results(node_.rule, choice.factor);
    for (std::size_t i = 0; i < strategy.operands.size(); ++i) {
      const TensorRule& tensor = node_.rule.operands[i];
      const std::uint32_t at = find_atom(node_, tensor, *operands_[i], choice.factor, choice.atom);
      PortLayouts& port = strategy.operands[i];
      if (at != kNoId) {
        port.value.place(axis, Placement::shard(at));
        port.gradient.place(axis, Placement::shard(at));
      } else if (!(reduces && tensor.addend)) {
        // Each shard of the factor contributes to this operand's gradient. An addend under a sharded sum is added on
        // one rank only, and its gradient is whole.
        port.gradient.place(axis, Placement::partial_sum());
      }
    }
    for (std::size_t i = 0; i < strategy.results.size(); ++i) {
      const std::uint32_t at = find_atom(node_, node_.rule.results[i], *results_[i], choice.factor, choice.atom);
      PortLayouts& port = strategy.results[i];
      if (at != kNoId) {
        port.value.place(axis, Placement::shard(at));
        port.gradient.place(axis, Placement::shard(at));
      } else if (!factor.internal && !node_.rule.results[i].own) {
        port.value.place(axis, Placement::partial_sum());
      }
    }
  }

  void apply_exchange(CallLayouts& strategy, std::size_t axis, const AxisChoice& choice) const {
    const FactorId to = node_.rule.exchanges[choice.group].to;
    const auto apply = [&](const TensorRule& tensor, const AtomShape& shape, PortLayouts& port) {
      std::uint32_t at = find_atom(node_, tensor, shape, to, 0);
      if (at == kNoId) at = find_atom(node_, tensor, shape, choice.factor, choice.atom);
      if (at == kNoId) return false;
      port.value.place(axis, Placement::shard(at));
      port.gradient.place(axis, Placement::shard(at));
      return true;
    };
    for (std::size_t i = 0; i < strategy.operands.size(); ++i) {
      // An operand without rows serves those of all ranks.
      if (!apply(node_.rule.operands[i], *operands_[i], strategy.operands[i])) {
        strategy.operands[i].gradient.place(axis, Placement::partial_sum());
      }
    }
    for (std::size_t i = 0; i < strategy.results.size(); ++i) {
      if (!apply(node_.rule.results[i], *results_[i], strategy.results[i]) && !node_.rule.results[i].own) {
        strategy.results[i].value.place(axis, Placement::partial_sum());
      }
    }
  }

  void apply_forward(CallLayouts& strategy, std::size_t axis, const AxisChoice& choice) const {
    // The gradient of an addend of a partial value is the value's own gradient; an operand outside of the group (the
    // other one of a product) gets one contribution from each rank.
    for (PortLayouts& operand : strategy.operands) operand.gradient.place(axis, Placement::partial_sum());
    for (const std::uint32_t operand : node_.rule.linear[choice.group]) {
      strategy.operands[operand].value.place(axis, Placement::partial_sum());
      strategy.operands[operand].gradient.place(axis, Placement::replicate());
    }
    for (std::size_t i = 0; i < strategy.results.size(); ++i) {
      if (!node_.rule.results[i].own) strategy.results[i].value.place(axis, Placement::partial_sum());
    }
  }

  const AtomizedNode& node_;
  const std::vector<const AtomShape*>& operands_;
  const std::vector<const AtomShape*>& results_;
};

bool all_fit(const std::vector<PortLayouts>& ports, const std::vector<const AtomShape*>& shapes, const Mesh& mesh) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!fits(ports[i].value, *shapes[i], mesh) || !fits(ports[i].gradient, *shapes[i], mesh)) return false;
  }
  return true;
}

}  // namespace

void for_each_combination(std::size_t options, std::size_t axes,
                          const std::function<void(const std::vector<std::size_t>&)>& visit) {
  std::vector<std::size_t> picked(axes, 0);
  while (true) {
    visit(picked);
    std::size_t axis = axes;
    while (axis > 0 && ++picked[axis - 1] == options) picked[--axis] = 0;
    if (axis == 0) return;
  }
}

std::optional<CallLayouts> derive_layouts(const AtomizedNode& node, const Mesh& mesh,
                                        const std::vector<const AtomShape*>& operands,
                                        const std::vector<const AtomShape*>& results,
                                        const std::vector<AxisChoice>& axes) {
  const Deriver deriver(node, operands, results);
  CallLayouts strategy;
  strategy.axes = axes;
  strategy.operands.assign(operands.size(), {Layout(mesh.rank()), Layout(mesh.rank())});
  strategy.results.assign(results.size(), {Layout(mesh.rank()), Layout(mesh.rank())});
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) deriver.apply(strategy, axis, axes[axis]);
  if (!all_fit(strategy.operands, operands, mesh) || !all_fit(strategy.results, results, mesh)) return std::nullopt;
  return strategy;
}

std::optional<CallLayouts> derive_layouts(const Graph& graph, const AtomizedGraph& atoms, NodeId node, const Mesh& mesh,
                                          const std::vector<AxisChoice>& axes) {
  std::vector<const AtomShape*> operands, results;
  for (const Operand& operand : graph.nodes[node].operands) operands.push_back(&atoms.values[operand.value]);
  for (const ValueId result : graph.nodes[node].results) results.push_back(&atoms.values[result]);
  return derive_layouts(atoms.nodes[node], mesh, operands, results, axes);
}

std::vector<CallLayouts> enumerate_strategies(const AtomizedNode& node, const Mesh& mesh,
                                              const std::vector<const AtomShape*>& operands,
                                              const std::vector<const AtomShape*>& results,
                                              const std::vector<bool>& operand_gradients) {
  const std::vector<AxisChoice> choices = axis_choices(node, operand_gradients);
  std::vector<CallLayouts> strategies;
  std::vector<AxisChoice> axes(mesh.rank());
  for_each_combination(choices.size(), mesh.rank(), [&](const std::vector<std::size_t>& picked) {
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) axes[axis] = choices[picked[axis]];
    std::optional<CallLayouts> layouts = derive_layouts(node, mesh, operands, results, axes);
    if (layouts) strategies.push_back(std::move(*layouts));
  });
  return strategies;
}

Layout handed_layout(const AtomizedNode& node, const CallLayouts& call, std::size_t i) {
  Layout layout = call.operands[i].value;
  if (!node.rule.operands[i].addend) return layout;
  for (std::size_t axis = 0; axis < call.axes.size(); ++axis) {
    const AxisChoice& choice = call.axes[axis];
    if (choice.use == AxisUse::factor && !is_in_results(node.rule, choice.factor) && !node.rule.factors[choice.factor].internal) {
      layout.place(axis, Placement::partial_sum());
    }
  }
  return layout;
}

std::vector<Strategy> enumerate_fork(const AtomShape& shape, const Mesh& mesh) {
  // Per axis: replicated, on an atom, a partial value with a whole gradient, a whole value with a partial gradient.
  const std::size_t atoms = shape.sizes.size();
  std::vector<Strategy> strategies;
  for_each_combination(atoms + 3, mesh.rank(), [&](const std::vector<std::size_t>& picked) {
    PortLayouts port{Layout(mesh.rank()), Layout(mesh.rank())};
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
      if (picked[axis] > 0 && picked[axis] <= atoms) {
        port.value.place(axis, Placement::shard(picked[axis] - 1));
        port.gradient.place(axis, Placement::shard(picked[axis] - 1));
      }
      if (picked[axis] == atoms + 1) port.value.place(axis, Placement::partial_sum());
      if (picked[axis] == atoms + 2) port.gradient.place(axis, Placement::partial_sum());
    }
    if (!fits(port.value, shape, mesh) || !fits(port.gradient, shape, mesh)) return;
    strategies.push_back({ForkStrategy{port}});
  });
  return strategies;
}

std::vector<Strategy> enumerate_output(const AtomShape& shape, const Mesh& mesh) {
  const std::size_t atoms = shape.sizes.size();
  std::vector<Strategy> strategies;
  for_each_combination(atoms + 1, mesh.rank(), [&](const std::vector<std::size_t>& picked) {
    PortLayouts port{Layout(mesh.rank()), Layout(mesh.rank())};
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
      if (picked[axis] > 0) port.value.place(axis, Placement::shard(picked[axis] - 1));
    }
    port.gradient = port.value;
    if (!fits(port.value, shape, mesh)) return;
    strategies.push_back({OutputStrategy{port}});
  });
  return strategies;
}

namespace {

// Where a further axis may shard the stored parameter: on an atom of its own if there is one, so that its gathers and
// reductions need no permutation whatever their order; else innermost; among equals on the one with most left.
bool place_fully_sharded(Layout& stored, const AtomShape& shape, const Mesh& mesh, std::size_t axis) {
  using Rank = std::tuple<bool, bool, std::int64_t>;
  std::optional<Rank> best;
  Layout chosen = stored;
  for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
    Layout candidate = stored;
    candidate.place(axis, Placement::shard(atom));
    if (!fits(candidate, shape, mesh)) continue;
    const std::int64_t shards = shards_of_atom(candidate, mesh, atom);
    const Rank rank{shards == mesh.axes[axis].size, candidate.is_innermost(axis), shape.sizes[atom] / shards};
    if (!best || rank > *best) best = rank, chosen = candidate;
  }
  stored = chosen;
  return best.has_value();
}

}  // namespace

namespace {

// Over these axes, as far as the shape can be cut: whether all of them fitted.
bool shard_over(Layout& stored, const AtomShape& shape, const Mesh& mesh, const std::vector<bool>& axes) {
  bool all = true;
  for (std::size_t axis = mesh.rank(); axis-- > 0;) all &= !axes[axis] || place_fully_sharded(stored, shape, mesh, axis);
  return all;
}

// One of the stages of ZeRO: what is computed with as `compute` has what the stage shards in `sharded`.
ParameterStrategy store_as(const Layout& compute, const Layout& sharded, ZeroStage stage, const TrainingSettings& training) {
  ParameterStrategy strategy;
  strategy.compute = compute;
  strategy.state = sharded;
  strategy.zero = stage;
  const bool reduced_whole = stage == ZeroStage::optimizer && training.reduces_each_microbatch(stage);
  strategy.stored = {stage == ZeroStage::value ? sharded : compute, reduced_whole ? compute : sharded};
  return strategy;
}

}  // namespace

std::vector<Strategy> enumerate_parameter(const AtomShape& shape, const Mesh& mesh, const TrainingSettings& training,
                                          const StrategyFilter& filter) {
  // Per axis: replicated, sharded on an atom for storing and computing, or sharded over in a stage of ZeRO.
  const std::size_t atoms = shape.sizes.size();
  const bool free = !filter.zero;
  std::vector<Strategy> strategies;
  for_each_combination(atoms + (free ? 2 : 1), mesh.rank(), [&](const std::vector<std::size_t>& picked) {
    Layout compute(mesh.rank());
    std::vector<bool> over(mesh.rank(), false);
    bool any = false;
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
      const bool allowed = (filter.zero_axes >> axis & 1U) != 0;
      if (picked[axis] > 0 && picked[axis] <= atoms) compute.place(axis, Placement::shard(picked[axis] - 1));
      if (picked[axis] == atoms + 1 && !allowed) return;
      over[axis] = free ? picked[axis] == atoms + 1 : picked[axis] == 0 && allowed && *filter.zero != ZeroStage::none;
      any |= over[axis];
    }
    if (!fits(compute, shape, mesh)) return;
    Layout sharded = compute;
    const bool all = shard_over(sharded, shape, mesh, over);
    if (free && !all) return;
    if (!any || sharded == compute) {
      strategies.push_back({store_as(compute, compute, ZeroStage::none, training)});
      return;
    }
    const auto wanted = [&](ZeroStage stage) {
      if (!free) return *filter.zero == stage;
      // With one microbatch stage 2 sends what stage 1 does, and holds less.
      return stage != ZeroStage::optimizer || training.microbatches > 1;
    };
    for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::gradient}) {
      if (wanted(stage)) strategies.push_back({store_as(compute, sharded, stage, training)});
    }
    if (!wanted(ZeroStage::value)) return;
    // It alone gathers for each use. Of equal strategies the first one is taken, which hides its gathers.
    for (const bool regather : {false, true}) {
      for (const bool prefetch : {true, false}) {
        if (filter.regather.value_or(regather) != regather || filter.prefetch.value_or(prefetch) != prefetch) continue;
        ParameterStrategy strategy = store_as(compute, sharded, ZeroStage::value, training);
        strategy.regather = regather;
        strategy.prefetch = prefetch;
        strategies.push_back({std::move(strategy)});
      }
    }
  });
  return strategies;
}

}  // namespace meshwright
