#include "patterns.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

namespace meshwright::tap {

namespace {

bool has(std::uint32_t axes, std::size_t axis) { return (axes >> axis & 1U) != 0; }

// Whether a list has, on all tensor axes, one thing or nothing.
template <class At, class IsNothing>
bool same_or_nothing(std::uint32_t tensor_axes, At at, IsNothing is_nothing) {
  bool found = false;
  decltype(at(0)) first{};
  for (std::size_t axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (!has(tensor_axes, axis) || is_nothing(at(axis))) continue;
    if (found && !(at(axis) == first)) return false;
    first = at(axis);
    found = true;
  }
  return true;
}

}  // namespace

std::string to_string(Pattern pattern) { return pattern == kReplica ? "R" : "S" + std::to_string(pattern - 1); }

Patterns::Patterns(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed)
    : input_(input), problem_(problem), trimmed_(trimmed) {
  batch_ = batch_atoms(input.model, input.part);
  for (const auto& classes : input.atoms().classes) {
    has_batch_.push_back(std::any_of(classes.begin(), classes.end(), [&](std::uint32_t atom) { return batch_.contains(atom); }));
  }
  std::vector<std::uint32_t> port(problem.variables.size(), kNoId);
  for (const GraphNode& node : trimmed.nodes) port[node.variable] = node.port;
  std::map<std::string, std::uint32_t> known;
  for (std::uint32_t v = 0; v < problem.variables.size(); ++v) {
    const auto& costs = problem.space.nodes[v].costs;
    pinned_.push_back(std::any_of(costs.begin(), costs.end(), [](Ticks cost) { return cost >= kForbidden; }));
    const Variable& variable = problem.variables[v];
    const auto [found, inserted] =
        known.try_emplace(std::to_string(variable.set->id) + batch_key(v) + (port[v] == kNoId ? "" : " @" + std::to_string(port[v])),
                          static_cast<std::uint32_t>(profiles_.size()));
    profile_.push_back(found->second);
    if (!inserted) continue;
    Profile& profile = profiles_.emplace_back();
    for (const Strategy& strategy : variable.set->strategies) {
      profile.not_data_parallel.push_back(axes_not_data_parallel(variable, strategy));
      if (port[v] == kNoId) continue;
      const AtomShape& shape = input.atoms().values[input.graph().nodes[variable.node].operands[port[v]].value];
      profile.split_axes.resize(shape.atoms_of_dimension.size());
      for (auto& axes : profile.split_axes) axes.push_back(0);
      const Layout& weight = strategy.operand(port[v]).value;
      for (std::size_t axis = 0; axis < weight.mesh_rank(); ++axis) {
        if (weight[axis].is_shard()) profile.split_axes[shape.dimension_of(weight[axis].atom())].back() |= 1U << axis;
      }
    }
  }
}

// Which atoms of the variable's values are the batch: variables with equal strategies may differ in it.
std::string Patterns::batch_key(std::uint32_t v) const {
  const Variable& variable = problem_.variables[v];
  std::string key = " ";
  const auto add = [&](ValueId value) {
    key += '|';
    for (const std::uint32_t atom : input_.atoms().classes[value]) key += batch_.contains(atom) ? '1' : '0';
  };
  if (variable.kind != VariableKind::node) {
    add(variable.value);
    return key;
  }
  for (const Operand& operand : input_.graph().nodes[variable.node].operands) add(operand.value);
  for (const ValueId result : input_.graph().nodes[variable.node].results) add(result);
  return key;
}

bool Patterns::is_data_parallel(ValueId value, Placement placement) const {
  if (!has_batch_[value]) return placement.is_replicate();
  return placement.is_shard() && batch_.contains(input_.atoms().classes[value][placement.atom()]);
}

std::uint32_t Patterns::axes_not_data_parallel(const Variable& variable, const Strategy& strategy) const {
  std::uint32_t axes = 0;
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    bool good = true;
    switch (variable.kind) {
      case VariableKind::parameter: good = strategy.parameter()->compute[axis].is_replicate(); break;
      case VariableKind::fork: good = is_data_parallel(variable.value, strategy.result(0).value[axis]); break;
      case VariableKind::output: good = is_data_parallel(variable.value, strategy.operand(0).value[axis]); break;
      case VariableKind::node: {
        const Node& node = input_.graph().nodes[variable.node];
        for (std::size_t i = 0; i < node.operands.size(); ++i) good &= is_data_parallel(node.operands[i].value, strategy.node()->call.operands[i].value[axis]);
        // What a batch is summed to (a loss, a mean) is partial, and is made whole at its user.
        for (std::size_t i = 0; i < node.results.size(); ++i) {
          if (has_batch_[node.results[i]]) good &= is_data_parallel(node.results[i], strategy.node()->call.results[i].value[axis]);
        }
      }
    }
    if (!good) axes |= 1U << axis;
  }
  return axes;
}

// Partial values are made by GraphNodes and summed where they go; only the gradients that meet in a fork are summed before.
bool Patterns::follows(const Variable& variable, const Strategy& strategy, std::uint32_t tensor_axes) const {
  if (const NodeStrategy* node = strategy.node()) {
    const std::vector<AxisChoice>& axes = node->call.axes;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const AxisUse use = axes[axis].use;
      if (has(tensor_axes, axis) && (use == AxisUse::pass_forward || use == AxisUse::pass_backward)) return false;
    }
    return same_or_nothing(tensor_axes, [&](std::size_t axis) { return axes[axis]; },
                           [](const AxisChoice& choice) { return choice.use == AxisUse::repeat; });
  }
  const auto uniform = [&](const Layout& layout) {
    return same_or_nothing(tensor_axes, [&](std::size_t axis) { return layout[axis]; }, [](Placement placement) { return placement.is_replicate(); });
  };
  switch (variable.kind) {
    case VariableKind::parameter: return uniform(strategy.parameter()->compute);
    case VariableKind::fork: return !strategy.result(0).value.has_partial() && uniform(strategy.result(0).value) && uniform(strategy.result(0).gradient);
    default: return uniform(strategy.operand(0).value);
  }
}

// On how many tensor axes an op repeats its work on values of the batch.
int Patterns::repeats(const Variable& variable, const Strategy& strategy, std::uint32_t tensor_axes) const {
  if (variable.kind != VariableKind::node) return 0;
  const std::vector<ValueId>& results = input_.graph().nodes[variable.node].results;
  if (std::none_of(results.begin(), results.end(), [&](ValueId result) { return has_batch_[result]; })) return 0;
  int count = 0;
  const std::vector<AxisChoice>& axes = strategy.node()->call.axes;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    count += has(tensor_axes, axis) && axes[axis].use == AxisUse::repeat ? 1 : 0;
  }
  return count;
}

Patterns::Choices Patterns::allowed(std::uint32_t variable) const {
  Choices choices;
  const auto& costs = problem_.space.nodes[variable].costs;
  for (std::uint32_t s = 0; s < costs.size(); ++s) {
    if (costs[s] < kForbidden) choices.push_back(s);
  }
  return choices;
}

template <class Count>
Patterns::Choices Patterns::fewest(const Choices& among, Count count_of) const {
  int fewest = std::numeric_limits<int>::max();
  Choices best;
  for (const std::uint32_t s : among) {
    const int count = count_of(s);
    if (count > fewest) continue;
    if (count < fewest) best.clear();
    fewest = count;
    best.push_back(s);
  }
  return best;
}

Patterns::Choices Patterns::fewest_violations(std::uint32_t variable, const Choices& among, std::uint32_t axes) const {
  const Profile& profile = profiles_[profile_[variable]];
  return fewest(among, [&](std::uint32_t s) { return std::popcount(profile.not_data_parallel[s] & axes); });
}

namespace {

// Where a variable's strategies are not those of its profile they are kept for it alone.
std::uint64_t memo_key(std::uint32_t profile, std::uint32_t variable, bool pinned, std::uint32_t tensor_axes, std::uint32_t what) {
  const std::uint64_t who = pinned ? std::uint64_t{variable} * 2 + 1 : std::uint64_t{profile} * 2;
  return (who << 24) | (std::uint64_t{what} << 16) | tensor_axes;
}

}  // namespace

const Patterns::Choices& Patterns::following(std::uint32_t v, std::uint32_t tensor_axes) {
  std::unique_ptr<Choices>& made = made_[memo_key(profile_[v], v, pinned_[v], tensor_axes, 255)];
  if (made) return *made;
  const std::uint32_t all = (1U << input_.mesh.rank()) - 1;
  const Choices choices = allowed(v);
  Choices good;
  for (const std::uint32_t s : choices) {
    if (follows(problem_.variables[v], problem_.variables[v].set->strategies[s], tensor_axes)) good.push_back(s);
  }
  const Variable& variable = problem_.variables[v];
  made = std::make_unique<Choices>(fewest(fewest_violations(v, good.empty() ? choices : good, all & ~tensor_axes), [&](std::uint32_t s) {
    return repeats(variable, variable.set->strategies[s], tensor_axes);
  }));
  return *made;
}

const Patterns::Choices& Patterns::of(std::uint32_t graph_node, Pattern pattern, std::uint32_t tensor_axes) {
  const std::uint32_t v = trimmed_.nodes[graph_node].variable;
  std::unique_ptr<Choices>& made = made_[memo_key(profile_[v], v, pinned_[v], tensor_axes, pattern)];
  if (made) return *made;
  const Profile& profile = profiles_[profile_[v]];
  const std::uint32_t all = (1U << input_.mesh.rank()) - 1;
  Choices choices = allowed(v);
  if (pattern == kReplica) {
    made = std::make_unique<Choices>(fewest_violations(v, choices, all));
    return *made;
  }
  std::erase_if(choices, [&](std::uint32_t s) { return (profile.split_axes[pattern - 1][s] & tensor_axes) != tensor_axes; });
  made = std::make_unique<Choices>(fewest_violations(v, choices, all & ~tensor_axes));
  return *made;
}

std::vector<Pattern> Patterns::available(std::uint32_t graph_node, std::uint32_t tensor_axes) {
  const Profile& profile = profiles_[profile_[trimmed_.nodes[graph_node].variable]];
  std::vector<Pattern> patterns;
  for (std::size_t d = 0; d < profile.split_axes.size() && tensor_axes != 0; ++d) {
    const auto pattern = static_cast<Pattern>(d + 1);
    if (!of(graph_node, pattern, tensor_axes).empty()) patterns.push_back(pattern);
  }
  const auto replicates = [&](std::uint32_t s) {
    return std::all_of(profile.split_axes.begin(), profile.split_axes.end(), [&](const auto& axes) { return (axes[s] & tensor_axes) == 0; });
  };
  const Choices& whole = of(graph_node, kReplica, tensor_axes);
  if (patterns.empty() || std::any_of(whole.begin(), whole.end(), replicates)) patterns.insert(patterns.begin(), kReplica);
  return patterns;
}

}  // namespace meshwright::tap
