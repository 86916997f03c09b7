// Builds the search problem: variables with their strategies, edges with their tables, memory terms.
#include <algorithm>
#include <cassert>
#include <map>
#include <ranges>
#include <set>

#include "meshwright/known_strategies.h"
#include "strategy/alike.h"
#include "strategy/constants.h"
#include "strategy/edge_tables.h"
#include "strategy/enumerate.h"
#include "strategy/gather_turns.h"
#include "strategy/memory_terms.h"
#include "strategy/price.h"
#include "strategy/restrictions.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMinor = 16;

using SetOfKey = std::map<std::string, std::shared_ptr<StrategySet>>;

}  // namespace

struct KnownStrategies::Sets {
  SetOfKey of_ops;
  ConstantKinds constants;
  std::uint32_t made = 0;  // of all kinds: their ids
};

KnownStrategies::KnownStrategies() : sets_(std::make_unique<Sets>()) {}
KnownStrategies::~KnownStrategies() = default;

class ProblemBuilder {
 public:
  ProblemBuilder(const ProblemInput& input, Recomputation recomputation, KnownStrategies& known)
      : input_(input), restrictions_(input), known_(*known.sets_), constants_(input, known_.constants), paths_(input.conversions), tables_(input) {
    problem_.recomputation = std::move(recomputation);
  }

  Result<Problem> run() {
    count_uses();
    find_minor();
    for (NodeId id = 0; id < input_.graph().nodes.size(); ++id) {
      if (!is_differentiable(id)) continue;
      if (Status status = add_node(id); !status) return status.error();
    }
    for (const Output& output : input_.graph().outputs) {
      if (!input_.graph().values[output.value].requires_gradient) continue;
      if (Status status = add_output(output); !status) return status.error();
    }
    if (problem_.variables.empty()) {
      return bad_input("graph '" + input_.graph().name + "': nothing in it depends on a parameter, so there is nothing to train");
    }
    if (Status status = tables_.fill(problem_); !status) return status.error();
    price_gathers_of_updates();
    add_memory_terms(input_, problem_);
    return std::move(problem_);
  }

 private:
  const Value& value(ValueId id) const { return input_.graph().values[id]; }
  const AtomShape& shape(ValueId id) const { return input_.atoms().values[id]; }

  bool is_differentiable(NodeId id) const {
    for (const ValueId result : input_.graph().nodes[id].results) {
      if (value(result).requires_gradient) return true;
    }
    return false;
  }

  void count_uses() {
    uses_.assign(input_.graph().values.size(), 0);
    for (NodeId id = 0; id < input_.graph().nodes.size(); ++id) {
      for (const Operand& operand : input_.graph().nodes[id].operands) {
        if (is_differentiable(id)) ++uses_[operand.value];
      }
    }
    for (const Output& output : input_.graph().outputs) ++uses_[output.value];
    sums_.assign(uses_.size(), 0);
    for (ValueId id = 0; id < uses_.size(); ++id) sums_[id] = uses_[id] > 0 ? uses_[id] - 1 : 0;
    if (!input_.model.backward) return;
    // Of gradients there is one from each operand that has one, and the loss' own.
    std::vector<std::uint32_t> addends(uses_.size(), 0);
    const auto& contributions = input_.model.backward->training.contributions;
    for (NodeId id = 0; id < contributions.size(); ++id) {
      for (std::size_t i = 0; i < contributions[id].size(); ++i) {
        if (contributions[id][i] != kNoId) ++addends[input_.graph().nodes[id].operands[i].value];
      }
    }
    for (const Output& output : input_.graph().outputs) addends[output.value] += output.kind == OutputKind::loss || output.kind == OutputKind::sent ? 1 : 0;
    for (ValueId id = 0; id < uses_.size(); ++id) sums_[id] = addends[id] > 0 ? addends[id] - 1 : 0;
  }

  // So small a part of a unit (decision 039) is gathered ahead with the rest: it is no choice of its own, of which there were too many.
  void find_minor() {
    const std::vector<UnitMember> members = unit_members(input_.graph(), input_.profile.bucket_bytes, [&](const Source& source) {
      return source.kind == SourceKind::parameter && value(source.value).requires_gradient;
    });
    std::map<std::uint32_t, std::int64_t> bytes;  // by unit
    for (const UnitMember& member : members) bytes[member.unit] += member.bytes;
    for (const UnitMember& member : members) {
      if (member.bytes * kMinor < bytes[member.unit]) minor_.insert(member.value);
    }
  }

  // What yields a differentiable value to one more use: its producer, its parameter, or its fork.
  struct Origin {
    std::uint32_t variable = 0;
    std::uint32_t port = 0;
    bool parameter = false;
  };

  Result<Origin> origin(ValueId id) {
    const auto known = origins_.find(id);
    if (known != origins_.end()) return known->second;
    assert(value(id).producer == kNoId);  // a source: every other value was added with its producer
    if (Status status = is_input(id) ? add_input(id) : add_parameter(id); !status) return status.error();
    return origins_.at(id);
  }

  [[nodiscard]] bool is_input(ValueId id) const {
    return std::ranges::any_of(input_.graph().sources, [&](const Source& source) {
      return source.value == id && (source.kind == SourceKind::user_input || source.kind == SourceKind::received);
    });
  }

  // An input whose gradient is wanted: each rank takes its part, and gives that part's gradient, whole, for all its uses.
  Status add_input(ValueId id) {
    const std::size_t stages = far_makers(id);
    const std::string key = "input " + shape_key(id) + " " + sums_key(id) + restrictions_.key(id) + " of " + std::to_string(stages);
    Result<std::shared_ptr<StrategySet>> set = find_set(sets_, key, value(id).name, [&] {
      Result<std::vector<Strategy>> strategies = fork_strategies(id, [](const PortLayouts& port) { return !port.value.has_partial() && !port.gradient.has_partial(); });
      if (!strategies) return strategies;
      for (Strategy& strategy : *strategies) strategy.forward_seconds += received_seconds(shape(id), value(id).type, strategy.result(0).value, stages, input_);
      return strategies;
    });
    if (!set) return set.error();
    origins_[id] = {add_variable(VariableKind::fork, kNoId, id, value(id).name, *set), 0, false};
    return Done{};
  }

  // How other stages have to do with a value; null: nobody has said.
  [[nodiscard]] const StageBoundary* boundary_of(ValueId id) const {
    if (input_.part == nullptr) return nullptr;
    const auto found = std::ranges::find(input_.part->boundaries, value(id).name, &StageBoundary::value);
    return found == input_.part->boundaries.end() ? nullptr : &*found;
  }

  [[nodiscard]] bool is_far(std::uint32_t stage) const { return std::ranges::find(input_.part->beside, stage) == input_.part->beside.end(); }

  // Stages on other devices that make a value which is received here: one or none.
  [[nodiscard]] std::size_t far_makers(ValueId id) const {
    const StageBoundary* boundary = boundary_of(id);
    return boundary != nullptr && boundary->from != input_.part->stage && is_far(boundary->from) ? 1 : 0;
  }

  // Those that give a gradient of a value which is sent from here.
  [[nodiscard]] std::size_t far_users(ValueId id) const {
    const StageBoundary* boundary = boundary_of(id);
    return boundary == nullptr ? 0 : static_cast<std::size_t>(std::ranges::count_if(boundary->to, [&](std::uint32_t stage) { return is_far(stage); }));
  }

  // Of a fork that settles in a layout that the predicate and the filter allow.
  template <class Fits>
  Result<std::vector<Strategy>> fork_strategies(ValueId id, Fits fits) {
    std::vector<Strategy> strategies = enumerate_fork(shape(id), input_.mesh);
    std::erase_if(strategies, [&](const Strategy& strategy) { return !fits(strategy.result(0)) || !restrictions_.allow_batch(id, strategy.result(0)); });
    const ForkSums sums = sums_of(id);
    for (Strategy& strategy : strategies) price_fork(shape(id), value(id).type, sums, input_, strategy);
    return strategies;
  }

  [[nodiscard]] ForkSums sums_of(ValueId id) const {
    ForkSums sums{sums_[id], {}};
    if (!input_.training.compile) return sums;
    for (std::uint32_t i = 0; i < sums.count; ++i) sums.fused.push_back(&fused_sum(input_.model, input_.training, id, i));
    return sums;
  }

  [[nodiscard]] std::string sums_key(ValueId id) const {
    std::string key = std::to_string(sums_[id]);
    for (const FusedCall* fused : sums_of(id).fused) key += meshwright::fused_key(*fused) + ";";
    return key;
  }

  Status add_parameter(ValueId id) {
    const bool minor = minor_.contains(id);
    const std::string key = "parameter " + shape_key(id) + (restrictions_.limits_weight(id) ? " limited" : "") + restrictions_.experts_key(id) + (minor ? " minor" : "");
    Result<std::shared_ptr<StrategySet>> set = find_set(sets_, key, value(id).name, [&] {
      StrategyFilter filter = input_.filter;
      if (minor) filter.prefetch = filter.prefetch.value_or(true);
      std::vector<Strategy> strategies = enumerate_parameter(shape(id), input_.mesh, input_.training, filter);
      std::erase_if(strategies, [&](const Strategy& strategy) { return !restrictions_.allow_parameter(id, *strategy.parameter()); });
      for (Strategy& strategy : strategies) {
        price_parameter(shape(id), value(id).type, input_, strategy);
      }
      return Result<std::vector<Strategy>>(std::move(strategies));
    });
    if (!set) return set.error();
    of_parameters_.emplace((*set)->id, *set);
    const std::uint32_t at = add_variable(VariableKind::parameter, kNoId, id, value(id).name, *set);
    return settle(id, {at, 0, true});
  }

  // Makes the origin of a value known, behind a fork if several use it.
  Status settle(ValueId id, Origin from) {
    if (uses_[id] > 1 && value(id).requires_gradient) {
      const std::string key = "fork " + shape_key(id) + " " + sums_key(id) + restrictions_.key(id);
      Result<std::shared_ptr<StrategySet>> set =
          find_set(sets_, key, value(id).name, [&] { return fork_strategies(id, [](const PortLayouts&) { return true; }); });
      if (!set) return set.error();
      const std::uint32_t at = add_variable(VariableKind::fork, kNoId, id, value(id).name, *set);
      add_edge(from, at, 0, id, 0);
      from = {at, 0, false};
    }
    origins_[id] = from;
    return Done{};
  }

  // Whether a variable yields it: everything differentiable, and what comes with it as another result of the same op.
  bool has_origin(ValueId id) const { return value(id).requires_gradient || origins_.contains(id); }

  Status add_node(NodeId id) {
    const Node& node = input_.graph().nodes[id];
    std::vector<Origin> origins(node.operands.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!has_origin(node.operands[i].value)) continue;
      Result<Origin> found = origin(node.operands[i].value);
      if (!found) return found.error();
      origins[i] = *found;
    }
    Result<std::shared_ptr<StrategySet>> set =
        find_set(known_.of_ops, node_key(id, origins), node.name, [&] { return node_strategies(id); });
    if (!set) return set.error();
    const std::uint32_t at = add_variable(VariableKind::node, id, kNoId, node.name, *set);
    double parameter_elements = 0;
    for (std::size_t i = 0; i < origins.size(); ++i) {
      if (origins[i].parameter) parameter_elements += static_cast<double>(value(node.operands[i].value).type.elements());
    }
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      if (!has_origin(operand)) continue;
      const double share =
          origins[i].parameter ? static_cast<double>(value(operand).type.elements()) / parameter_elements : 0;
      add_edge(origins[i], at, static_cast<std::uint32_t>(i), operand, share);
    }
    for (std::uint32_t i = 0; i < node.results.size(); ++i) {
      if (uses_[node.results[i]] == 0) continue;
      if (Status status = settle(node.results[i], {at, i, false}); !status) return status;
    }
    return Done{};
  }

  Result<std::vector<Strategy>> node_strategies(NodeId id) {
    const Node& node = input_.graph().nodes[id];
    std::vector<const AtomShape*> operands, results;
    std::vector<bool> gradients;
    for (const Operand& operand : node.operands) {
      gradients.push_back(value(operand.value).requires_gradient);
      operands.push_back(&shape(operand.value));
    }
    for (const ValueId result : node.results) results.push_back(&shape(result));
    std::vector<Strategy> strategies;
    NodePricer pricer(input_, id, paths_);
    for (CallLayouts& call : enumerate_strategies(input_.atoms().nodes[id], input_.mesh, operands, results, gradients)) {
      if (!restrictions_.allow_node(id, call)) continue;
      Strategy& strategy = strategies.emplace_back(Strategy{NodeStrategy{std::move(call)}});
      const Result<std::vector<ConstantUse>> constants = pricer.price(strategy);
      if (!constants) return constants.error();
      if (problem_.recomputation.runs(id)) {
        strategy.again_seconds = strategy.forward_seconds + strategy.node()->forward_communication_seconds;
        strategy.again_host_seconds = strategy.forward_host_seconds;
      }
      // Uses that want one layout share one copy; each pays its part.
      for (const ConstantUse& use : *constants) {
        if (!is_made(use.value)) strategy.node()->constant_seconds += constants_.share(use.value, use.layout);
      }
    }
    return strategies;
  }

  // Whether a variable yields it.
  [[nodiscard]] bool is_made(ValueId id) const { return id < uses_.size() && has_origin(id); }

  Status add_output(const Output& output) {
    Result<Origin> from = origin(output.value);
    if (!from) return from.error();
    const bool seeds = output.kind == OutputKind::loss && input_.model.backward;
    const std::size_t stages = output.kind == OutputKind::sent && input_.model.backward ? far_users(output.value) : 0;
    const std::string key = "output " + shape_key(output.value) + (seeds ? " seeded" : "") + " to " + std::to_string(stages);
    Result<std::shared_ptr<StrategySet>> set = find_set(sets_, key, value(output.value).name, [&] {
      std::vector<Strategy> strategies = enumerate_output(shape(output.value), input_.mesh);
      for (Strategy& strategy : strategies) {
        if (seeds) price_seed(shape(output.value), value(output.value).type, input_, strategy);
        strategy.backward_seconds += received_seconds(shape(output.value), value(output.value).type, strategy.operand(0).gradient, stages, input_);
      }
      return Result<std::vector<Strategy>>(std::move(strategies));
    });
    if (!set) return set.error();
    const std::uint32_t at = add_variable(VariableKind::output, kNoId, output.value, "output " + value(output.value).name, *set);
    add_edge(*from, at, 0, output.value, 0);
    return Done{};
  }

  // What an update changes in shards is cut first, and gathered again, where the value is held whole (ZeRO-1 and 2).
  void price_gathers_of_updates() {
    std::set<std::uint32_t> priced;
    for (std::size_t i = 0; i < problem_.variables.size(); ++i) {
      const Variable& variable = problem_.variables[i];
      if (variable.kind != VariableKind::parameter) continue;
      StrategySet& set = *of_parameters_.at(variable.set->id);
      for (std::size_t s = 0; s < set.strategies.size(); ++s) {
        ParameterStrategy& parameter = *set.strategies[s].parameter();
        if (parameter.stored.value == parameter.state) continue;
        if (!priced.contains(set.id)) {
          parameter.update_seconds += to_seconds(tables_.price(variable.value, false, parameter.stored.value, parameter.state) +
                                                 tables_.price(variable.value, true, parameter.stored.gradient, parameter.state) +
                                                 tables_.price(variable.value, false, parameter.state, parameter.stored.value) +
                                                 tables_.update_latency(parameter));
        }
        problem_.space.nodes[i].costs[s] = to_ticks(set.strategies[s].seconds(input_.training.microbatches));
      }
      priced.insert(set.id);
    }
  }

  // --- sets shared by identical variables ---

  std::string shape_key(ValueId id) const { return meshwright::shape_key(input_.graph().type(id).dtype, input_.atoms().values[id]); }

  // Of a node of the training graph.
  [[nodiscard]] std::string fused_key(NodeId id) const { return meshwright::fused_key(fused_call(input_.model, input_.training, id)); }

  std::string node_key(NodeId id, const std::vector<Origin>& origins) {
    const Node& node = input_.graph().nodes[id];
    std::string key = call_key(input_.graph().nodes[id], input_.atoms().nodes[id]) + fused_key(id);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      key += " | " + shape_key(operand) + restrictions_.key(operand) + (origins[i].parameter ? " parameter" : "");
      if (restrictions_.limits_weight(operand)) key += " weight";
      if (value(operand).requires_gradient) key += " gradient";
      else if (has_origin(operand)) key += " made";
      else key += " constant " + std::to_string(constants_.kind(operand)) + " of " + std::to_string(constants_.uses(operand));
    }
    for (const ValueId result : node.results) {
      key += " > " + shape_key(result) + (value(result).requires_gradient ? " gradient" : "");
    }
    if (problem_.recomputation.runs(id)) key += " again";
    return input_.model.backward ? key + backward_key(id) : key;
  }

  // The nodes of its gradient, and from where they have what they use: as which operand, result or gradient of one, or as
  // the result of which of them.
  std::string backward_key(NodeId id) {
    const TrainingAnalysis& model = *input_.model.backward;
    const Graph& graph = model.training.graph;
    std::map<ValueId, std::string> names;
    const Node& node = graph.nodes[id];
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (value(node.operands[i].value).requires_gradient) names[node.operands[i].value] = "o" + std::to_string(i);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      names[node.results[i]] = "r" + std::to_string(i);
      const ValueId gradient = model.training.gradients[node.results[i]];
      if (gradient != kNoId) names[gradient] = "g" + std::to_string(i);
    }
    std::string key;
    for (const NodeId each : model.backward_of[id]) {
      const Node& backward = graph.nodes[each];
      key += " < " + call_key(backward, model.atoms.nodes[each]) + fused_key(each);
      for (const Operand& operand : backward.operands) {
        const auto known = names.find(operand.value);
        key += " " + operand.name + " " + meshwright::shape_key(graph.type(operand.value).dtype, model.atoms.values[operand.value]) + " " +
               (known != names.end() ? known->second : "constant " + std::to_string(constants_.kind(operand.value)) + " of " + std::to_string(constants_.uses(operand.value)));
      }
      for (const ValueId result : backward.results) {
        const std::string number = std::to_string(names.size());
        names.try_emplace(result, "m" + number);
        key += " > " + meshwright::shape_key(graph.type(result).dtype, model.atoms.values[result]);
      }
    }
    for (const ValueId contribution : model.training.contributions[id]) key += contribution == kNoId ? " -" : " " + names[contribution];
    return key;
  }

  template <class Make>
  Result<std::shared_ptr<StrategySet>> find_set(SetOfKey& sets, const std::string& key, const std::string& name, Make make) {
    auto found = sets.find(key);
    if (found == sets.end()) {
      Result<std::vector<Strategy>> strategies = make();
      if (!strategies) return strategies.error();
      found = sets.emplace(key, std::make_shared<StrategySet>(StrategySet{known_.made++, std::move(*strategies)})).first;
    }
    if (found->second->strategies.empty()) return infeasible("'" + name + "' " + restrictions_.text());
    return found->second;
  }

  // --- the problem ---

  std::uint32_t add_variable(VariableKind kind, NodeId node, ValueId id, std::string name,
                             std::shared_ptr<const StrategySet> set) {
    SpaceNode& space = problem_.space.nodes.emplace_back();
    space.name = name;
    for (const Strategy& strategy : set->strategies) space.costs.push_back(to_ticks(strategy.seconds(input_.training.microbatches)));
    problem_.strategies += set->strategies.size();
    problem_.variables.push_back({kind, node, id, std::move(name), std::move(set)});
    return static_cast<std::uint32_t>(problem_.variables.size() - 1);
  }

  void add_edge(Origin from, std::uint32_t to, std::uint32_t to_port, ValueId id, double hidden_share) {
    problem_.edges.push_back({from.variable, from.port, to, to_port, id, from.parameter, hidden_share});
  }

  const ProblemInput& input_;
  const Restrictions restrictions_;
  KnownStrategies::Sets& known_;
  ConstantPricer constants_;
  ConversionPaths paths_;
  EdgeTables tables_;
  Problem problem_;
  std::vector<std::uint32_t> uses_;   // by value: operands of differentiable nodes, and outputs
  std::vector<std::uint32_t> sums_;   // by value: how often gradients of it are added up
  std::map<ValueId, Origin> origins_;
  std::set<ValueId> minor_;  // parameters
  SetOfKey sets_;  // of all kinds but ops
  std::map<std::uint32_t, std::shared_ptr<StrategySet>> of_parameters_;  // by id
};

Result<Problem> build_problem(const ProblemInput& input, KnownStrategies& known) {
  Result<Recomputation> again = recomputation(input.model, input.recomputed);
  if (!again) return again.error();
  return ProblemBuilder(input, std::move(*again), known).run();
}

Result<Problem> build_problem(const ProblemInput& input) {
  KnownStrategies known;
  return build_problem(input, known);
}

}  // namespace meshwright
