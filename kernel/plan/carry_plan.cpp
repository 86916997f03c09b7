#include "meshwright/carry_plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/same_rule.h"
#include "meshwright/gather_units.h"
#include "meshwright/recompute.h"
#include "plan/outline.h"

namespace meshwright {

namespace {

class PlanCarrier {
 public:
  PlanCarrier(const Plan& plan, ModelAnalysis model, const TakenPlaces& places, const CostProfile& profile, const ConversionSearch& conversions)
      : plan_(plan), old_(plan.graph()), places_(places), profile_(profile), paths_(conversions) {
    made_ = plan;
    made_.model = std::move(model);
    made_.variables.clear();
    made_.conversions.clear();
    made_.constants.clear();
    made_.runner_up.reset();
    made_.memory = {};
    made_.objective_seconds = made_.lower_bound_seconds = made_.forward_seconds = made_.step_seconds = made_.step_lower_bound_seconds = 0;
    made_.peak_bytes = 0;
  }

  Result<Plan> run() {
    if (Status status = match(); !status) return status.error();
    if (Status status = carry_recomputed(); !status) return status.error();
    for (const PlannedVariable& variable : plan_.variables) {
      if (Status status = carry(variable); !status) return add_context("'" + plan_.name(variable) + "'", status.error());
    }
    std::erase_if(made_.variables, [](const PlannedVariable& variable) {
      const auto* fork = std::get_if<PlannedFork>(&variable.choice);
      return fork != nullptr && fork->value == kNoId;
    });
    if (Status status = add_needs(); !status) return status.error();
    if (Status status = carry_conversions(); !status) return status.error();
    if (Status status = validate(made_); !status) return add_context("the plan's choices do not fit the smaller model", status.error());
    return std::move(made_);
  }

 private:
  [[nodiscard]] const Graph& now() const { return made_.graph(); }

  // --- what of the smaller model is what of the plan's ---

  Status match() {
    for (ValueId id = 0; id < now().values.size(); ++id) values_by_name_.emplace(now().values[id].name, id);
    for (NodeId id = 0; id < now().nodes.size(); ++id) nodes_by_name_.emplace(now().nodes[id].name, id);
    if (plan_.model.backward.operator bool() != made_.model.backward.operator bool()) {
      return bad_input(made_.model.backward ? "the smaller model has a backward, and the plan's has none" : "the smaller model has no backward: " + made_.model.no_backward.message);
    }
    values_.assign(training_graph(plan_.model).values.size(), kNoId);
    for (ValueId id = 0; id < old_.values.size(); ++id) {
      const std::string* name = &old_.values[id].name;
      for (auto place = places_.find(*name); place != places_.end(); place = places_.find(*name)) name = &place->second;
      const auto found = values_by_name_.find(*name);
      if (found == values_by_name_.end()) continue;
      values_[id] = found->second;
      if (!is_cut_alike(plan_.shape(id), made_.shape(found->second))) return bad_input("'" + old_.values[id].name + "' is cut otherwise in the smaller model");
    }
    nodes_.assign(old_.nodes.size(), kNoId);
    std::vector<bool> known(now().nodes.size(), false);
    for (NodeId id = 0; id < old_.nodes.size(); ++id) {
      const auto found = nodes_by_name_.find(old_.nodes[id].name);
      if (found == nodes_by_name_.end()) continue;
      nodes_[id] = found->second;
      known[found->second] = true;
      if (Status status = match_node(id, found->second); !status) return add_context("'" + old_.nodes[id].name + "'", status.error());
    }
    for (NodeId id = 0; id < known.size(); ++id) {
      if (!known[id]) return bad_input("the plan says nothing of '" + now().nodes[id].name + "'");
    }
    return Done{};
  }

  Status match_node(NodeId id, NodeId to) {
    if (old_.nodes[id].op != now().nodes[to].op || old_.nodes[id].operands.size() != now().nodes[to].operands.size()) return bad_input("it is another op in the smaller model");
    if (Status status = match_rules(plan_.model.atoms->nodes[id], made_.model.atoms->nodes[to]); !status) return status;
    if (!plan_.model.backward) return Done{};
    const std::vector<NodeId>&before = plan_.model.backward->backward_of[id], &after = made_.model.backward->backward_of[to];
    if (before.size() != after.size()) return bad_input("its gradient has other nodes in the smaller model");
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Node &one = training_graph(plan_.model).nodes[before[i]], &other = training_graph(made_.model).nodes[after[i]];
      if (one.op != other.op || one.results.size() != other.results.size()) return bad_input("its gradient has other nodes in the smaller model");
      if (Status status = match_rules(training_atoms(plan_.model).nodes[before[i]], training_atoms(made_.model).nodes[after[i]]); !status) return status;
      for (std::size_t r = 0; r < one.results.size(); ++r) {
        values_[one.results[r]] = other.results[r];
        if (!is_cut_alike(plan_.shape(one.results[r]), made_.shape(other.results[r]))) return bad_input("what its gradient computes is cut otherwise in the smaller model");
      }
    }
    return Done{};
  }

  static Status match_rules(const AtomizedNode& before, const AtomizedNode& after) {
    const auto counts = [](const AtomizedNode& node) {
      std::vector<std::size_t> each;
      for (const auto& atoms : node.factor_atoms) each.push_back(atoms.size());
      return each;
    };
    if (before.ruled == after.ruled && is_same_but_for_sizes(before.rule, after.rule) && counts(before) == counts(after)) return Done{};
    return bad_input("its rule is " + to_string(after.rule) + " in the smaller model, and was " + to_string(before.rule));
  }

  // --- what runs again ---

  Status carry_recomputed() {
    made_.recomputed.clear();
    std::set<std::string> blocks;
    for (const Node& node : now().nodes) blocks.insert(block_of(node.module_path));
    for (const std::string& name : plan_.recomputed) {
      if (blocks.contains(name) || nodes_by_name_.contains(name)) made_.recomputed.push_back(name);
    }
    const Result<std::set<NodeOperand>> operands = operands_named(plan_.model, plan_.recomputed);
    if (!operands) return operands.error();
    for (const auto& [id, port] : *operands) {
      if (nodes_[id] != kNoId) made_.recomputed.push_back(operand_name(now(), {nodes_[id], port}));
    }
    const Result<Recomputation> before = recomputation(plan_.model, plan_.recomputed), after = recomputation(made_.model, made_.recomputed);
    if (!before) return before.error();
    if (!after) return after.error();
    for (NodeId id = 0; id < nodes_.size(); ++id) {
      if (nodes_[id] == kNoId || before->runs(id) == after->runs(nodes_[id])) continue;
      return bad_input("'" + old_.nodes[id].name + "' runs again for its backward in one of the plan's model and the smaller one, and not in the other");
    }
    return Done{};
  }

  // --- variables ---

  Status carry(const PlannedVariable& of) {
    PlannedVariable variable;
    if (const PlannedNode* node = of.node()) {
      if (nodes_[node->node] == kNoId) return Done{};
      PlannedNode planned = *node;
      planned.node = nodes_[node->node];
      variable.choice = std::move(planned);
    } else if (const PlannedParameter* parameter = of.parameter()) {
      if (values_[parameter->value] == kNoId) return Done{};
      PlannedParameter planned = *parameter;
      planned.value = values_[parameter->value];
      variable.choice = planned;
    } else if (const auto* fork = std::get_if<PlannedFork>(&of.choice)) {
      const ValueId value = values_[fork->value];
      if (value == kNoId || !needs_fork(value)) return Done{};
      forget_fork(value);
      variable.choice = PlannedFork{value, fork->layouts};
    } else {
      const auto& output = std::get<PlannedOutput>(of.choice);
      const ValueId value = values_[output.value];
      const bool is_output = value != kNoId && std::ranges::any_of(now().outputs, [&](const Output& each) { return each.value == value; });
      if (!is_output) return Done{};
      variable.choice = PlannedOutput{value, output.layouts};
    }
    made_.variables.push_back(std::move(variable));
    return Done{};
  }

  // Of a value that takes other ones' places the last fork counts: it is that of the users.
  void forget_fork(ValueId value) {
    for (PlannedVariable& variable : made_.variables) {
      auto* fork = std::get_if<PlannedFork>(&variable.choice);
      if (fork != nullptr && fork->value == value) fork->value = kNoId;
    }
  }

  [[nodiscard]] bool needs_fork(ValueId value) const {
    if (now().values[value].producer == kNoId) return true;
    std::size_t uses = 0;
    for (const Node& node : now().nodes) uses += static_cast<std::size_t>(std::ranges::count(node.operands, value, &Operand::value));
    for (const Output& output : now().outputs) uses += output.value == value ? 1 : 0;
    return uses > 1;
  }

  // The layouts follow from the axes as they did, the backward's too.
  Status add_needs() {
    for (PlannedVariable& variable : made_.variables) {
      BackwardNeeds& needs = needs_.emplace_back();
      const PlannedNode* node = variable.node();
      if (node == nullptr || !made_.model.backward) continue;
      std::vector<std::vector<AxisChoice>> axes;
      for (const CallLayouts& call : node->backward) axes.push_back(call.axes);
      const BackwardAxes backward(*made_.model.backward, made_.mesh, node->node);
      if (backward.derive(node->call, axes) != node->backward) {
        return bad_input("'" + now().nodes[node->node].name + "': its backward cannot lie in the smaller model as the plan has it" + misfit(*node));
      }
      needs = backward.needs(node->call, node->backward);
    }
    return Done{};
  }

  // Which tensor of a node's gradient has no room for its layout, and how it is cut there.
  [[nodiscard]] std::string misfit(const PlannedNode& planned) const {
    const Graph& graph = training_graph(made_.model);
    for (std::size_t i = 0; i < planned.backward.size(); ++i) {
      const Node& node = graph.nodes[made_.model.backward->backward_of[planned.node][i]];
      const auto look = [&](ValueId value, const Layout& layout) {
        if (fits(layout, made_.shape(value), made_.mesh)) return std::string();
        std::string sizes;
        for (const std::int64_t size : made_.shape(value).sizes) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
        return ": '" + graph.values[value].name + "' of " + node.op + ", of atoms " + sizes + ", as " + to_string(layout, made_.shape(value)) + " on a mesh " + to_string(made_.mesh);
      };
      for (std::size_t o = 0; o < node.operands.size(); ++o) {
        if (std::string text = look(node.operands[o].value, planned.backward[i].operands[o].value); !text.empty()) return text;
      }
      for (std::size_t r = 0; r < node.results.size(); ++r) {
        if (std::string text = look(node.results[r], planned.backward[i].results[r].value); !text.empty()) return text;
      }
    }
    return "";
  }

  // --- conversions ---

  using Key = std::tuple<ValueId, bool, bool, Layout, Layout>;

  Status carry_conversions() {
    std::map<std::pair<ValueId, Layout>, CallLayouts> constants;
    for (const PlannedConstant& constant : plan_.constants) {
      if (values_[constant.value] != kNoId) constants.try_emplace({values_[constant.value], constant.wanted}, constant.made);
    }
    std::map<Key, const PlannedConversion*> known;
    for (const PlannedConversion& conversion : plan_.conversions) {
      if (values_[conversion.value] != kNoId) known.try_emplace({values_[conversion.value], conversion.gradient, conversion.hides, conversion.source, conversion.target}, &conversion);
    }
    Result<Outline> outline = outline_of(made_, needs_, [&](ValueId value, const Layout& wanted) {
      const auto found = constants.find({value, wanted});
      return found == constants.end() ? nullptr : &found->second;
    });
    if (!outline) return outline.error();
    made_.constants = std::move(outline->constants);
    for (PlannedConversion& conversion : outline->conversions) {
      const auto found = known.find({conversion.value, conversion.gradient, conversion.hides, conversion.source, conversion.target});
      if (found != known.end()) {
        conversion.moves = found->second->moves;
      } else if (Status status = find_moves(conversion); !status) {
        return add_context("'" + made_.name(conversion.value) + "'", status.error());
      }
      for (PlannedMove& move : conversion.moves) move.seconds = 0;
      made_.conversions.push_back(std::move(conversion));
    }
    return Done{};
  }

  Status find_moves(PlannedConversion& conversion) {
    const ConversionProblem problem = made_.problem(conversion, profile_);
    const Result<const ConversionPath*> path = paths_.find(problem, conversion.source, conversion.target);
    if (!path) return path.error();
    for (const Move& move : (*path)->moves) conversion.moves.push_back({move, 0});
    return Done{};
  }

  const Plan& plan_;
  const Graph& old_;
  const TakenPlaces& places_;
  const CostProfile& profile_;
  ConversionPaths paths_;
  Plan made_;
  std::unordered_map<std::string, ValueId> values_by_name_;
  std::unordered_map<std::string, NodeId> nodes_by_name_;
  std::vector<ValueId> values_;  // by value of the plan's training graph the one of the smaller model's; kNoId
  std::vector<NodeId> nodes_;    // by node of the plan's forward
  std::vector<BackwardNeeds> needs_;  // by variable
};

}  // namespace

Result<Plan> carry_plan(const Plan& plan, ModelAnalysis model, const TakenPlaces& places, const CostProfile& profile, const ConversionSearch& conversions) {
  return PlanCarrier(plan, std::move(model), places, profile, conversions).run();
}

}  // namespace meshwright
