#include "strategy/backward_axes.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "strategy/enumerate.h"

namespace meshwright {

namespace {

// What a conversion on one axis costs by its nature, in bytes moved for each byte of the tensor.
double mismatch(Placement have, Placement need) {
  if (have == need) return 0;
  if (have.is_replicate()) return need.is_partial() ? 0.001 : 0.01;  // keeps one, slices: nothing is sent
  if (have.is_shard()) return need.is_shard() ? 0.7 : 1;
  return need.is_shard() ? 1 : 2;
}

}  // namespace

BackwardAxes::BackwardAxes(const TrainingAnalysis& model, const Mesh& mesh, NodeId forward) : model_(model), mesh_(mesh), forward_(forward) {
  const Graph& graph = model.training.graph;
  for (const NodeId id : model.backward_of[forward]) {
    const Node& node = graph.nodes[id];
    Member& member = members_.emplace_back();
    member.id = id;
    std::vector<bool> floating;
    for (const Operand& operand : node.operands) {
      member.operands.push_back(&model.atoms.values[operand.value]);
      floating.push_back(is_floating(graph.type(operand.value).dtype));
    }
    for (const ValueId result : node.results) member.results.push_back(&model.atoms.values[result]);
    const std::vector<TensorRule>& tensors = model.atoms.nodes[id].rule.operands;
    member.reads_own = std::any_of(tensors.begin(), tensors.end(), [](const TensorRule& tensor) { return tensor.own; });
    member.choices = axis_choices(model.atoms.nodes[id], floating);
    std::erase_if(member.choices, [](const AxisChoice& choice) { return choice.use == AxisUse::pass_backward; });
  }
  const std::vector<ValueId>& contributions = model.training.contributions[forward];
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    if (contributions[i] != kNoId) wanted_.emplace_back(contributions[i], i);
  }
}

std::map<ValueId, Layout> BackwardAxes::at_hand(const CallLayouts& call) const {
  std::map<ValueId, Layout> layouts;
  const TrainingGraph& training = model_.training;
  const Node& node = training.graph.nodes[forward_];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId operand = node.operands[i].value;
    if (training.graph.values[operand].requires_gradient) layouts[operand] = call.operands[i].value;
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    layouts[node.results[i]] = call.results[i].value;
    const ValueId gradient = training.gradients[node.results[i]];
    if (gradient != kNoId) layouts[gradient] = call.results[i].gradient;
  }
  return layouts;
}

// Whether a node shares its work over an axis as the op does. Factors of both are known by their names.
bool BackwardAxes::works_alike(const Member& member, const AxisChoice& choice, const AxisChoice& forward) const {
  const auto shares = [](const AxisChoice& one) { return one.use == AxisUse::factor || one.use == AxisUse::exchange; };
  if (!shares(choice) || !shares(forward)) return shares(choice) == shares(forward);
  const auto name = [&](NodeId node, const AxisChoice& one) { return model_.atoms.nodes[node].rule.factors[one.factor].name; };
  return choice.use == forward.use && choice.atom == forward.atom && choice.group == forward.group && name(member.id, choice) == name(forward_, forward);
}

Error BackwardAxes::cannot_work_alike(const AxisChoice& forward) const {
  const Node& node = model_.training.graph.nodes[forward_];
  return plugin_failed("the gradient of '" + node.name + "' reads what " + node.op + " saved on the same rank, but cannot share its work over '" +
                       to_string(forward, model_.atoms.nodes[forward_]) + "' as the op does; its rule must allow that too");
}

// The best choices on one axis, beside what other axes do already.
class BackwardAxes::Search {
 public:
  Search(const BackwardAxes& of, const CallLayouts& call, std::size_t axis, Axes& axes) : of_(of), call_(call), axis_(axis), axes_(axes) {
    for (const auto& [value, layout] : of.at_hand(call)) have_[value] = layout[axis];
  }

  // Empty if some node has no choice.
  std::vector<AxisChoice> run() {
    visit(0, 0);
    return std::move(best_);
  }

 private:
  struct Option {
    AxisChoice choice;
    double cost = 0;
    std::vector<Placement> results;
  };

  [[nodiscard]] double bytes(ValueId value) const { return static_cast<double>(of_.model_.training.graph.type(value).bytes()); }

  std::vector<Option> options(std::size_t at) {
    const Member& member = of_.members_[at];
    const Node& node = of_.model_.training.graph.nodes[member.id];
    std::vector<Option> options;
    for (const AxisChoice& choice : member.choices) {
      if (member.reads_own && !of_.works_alike(member, choice, call_.axes[axis_])) continue;
      axes_[at][axis_] = choice;
      const std::optional<CallLayouts> layouts = derive_layouts(of_.model_.atoms.nodes[member.id], of_.mesh_, member.operands, member.results, axes_[at]);
      if (!layouts) continue;
      Option option{choice, 0, {}};
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const auto known = have_.find(node.operands[i].value);
        if (known == have_.end()) continue;
        option.cost += bytes(node.operands[i].value) * mismatch(known->second, layouts->operands[i].value[axis_]);
      }
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        option.results.push_back(layouts->results[i].value[axis_]);
        if (choice.use == AxisUse::repeat) option.cost += 1e-4 * bytes(node.results[i]);  // the same work everywhere
      }
      options.push_back(std::move(option));
    }
    axes_[at][axis_] = {};
    std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.cost < b.cost; });
    return options;
  }

  [[nodiscard]] double end_cost() const {
    double cost = 0;
    for (const auto& [value, operand] : of_.wanted_) cost += bytes(value) * mismatch(have_.at(value), call_.operands[operand].gradient[axis_]);
    return cost;
  }

  // Depth first, cheapest first, leaving off where the cost already is that of the best.
  void visit(std::size_t at, double cost) {
    if (cost >= best_cost_) return;
    if (at == of_.members_.size()) {
      cost += end_cost();
      if (cost < best_cost_) {
        best_cost_ = cost;
        best_ = chosen_;
      }
      return;
    }
    const Node& node = of_.model_.training.graph.nodes[of_.members_[at].id];
    for (const Option& option : options(at)) {
      if (best_cost_ < std::numeric_limits<double>::infinity() && ++visits_ > kMaxVisits) return;
      for (std::size_t i = 0; i < node.results.size(); ++i) have_[node.results[i]] = option.results[i];
      chosen_.push_back(option.choice);
      visit(at + 1, cost + option.cost);
      chosen_.pop_back();
    }
  }

  static constexpr int kMaxVisits = 20'000;

  const BackwardAxes& of_;
  const CallLayouts& call_;
  const std::size_t axis_;
  Axes& axes_;
  std::map<ValueId, Placement> have_;
  std::vector<AxisChoice> chosen_, best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  int visits_ = 0;
};

std::optional<std::vector<CallLayouts>> BackwardAxes::derive(const CallLayouts& call, const Axes& axes) const {
  std::vector<CallLayouts> nodes;
  if (axes.size() != members_.size()) return std::nullopt;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    for (std::size_t axis = 0; member.reads_own && axis < axes[i].size(); ++axis) {
      if (!works_alike(member, axes[i][axis], call.axes[axis])) return std::nullopt;
    }
    std::optional<CallLayouts> layouts = derive_layouts(model_.atoms.nodes[member.id], mesh_, member.operands, member.results, axes[i]);
    if (!layouts) return std::nullopt;
    nodes.push_back(std::move(*layouts));
  }
  return nodes;
}

Result<BackwardLayouts> BackwardAxes::choose(const CallLayouts& call) {
  // What an axis does depends on the others only where a tensor has no room for both.
  Axes axes(members_.size(), std::vector<AxisChoice>(mesh_.rank()));
  for (std::size_t axis = 0; axis < mesh_.rank(); ++axis) {
    const AxisChoice& choice = call.axes[axis];
    const auto [found, inserted] = known_.try_emplace({mesh_.axes[axis].size, choice.use, choice.factor, choice.atom, choice.group});
    if (inserted) {
      Axes alone(members_.size(), std::vector<AxisChoice>(mesh_.rank()));
      found->second = Search(*this, call, axis, alone).run();
    }
    if (found->second.size() < members_.size()) return cannot_work_alike(choice);
    for (std::size_t i = 0; i < members_.size(); ++i) axes[i][axis] = found->second[i];
  }
  std::optional<std::vector<CallLayouts>> nodes = derive(call, axes);
  if (!nodes) {
    for (std::vector<AxisChoice>& of_member : axes) of_member.assign(mesh_.rank(), {});
    for (std::size_t axis = 0; axis < mesh_.rank(); ++axis) {
      const std::vector<AxisChoice> best = Search(*this, call, axis, axes).run();
      if (best.size() < members_.size()) return cannot_work_alike(call.axes[axis]);
      for (std::size_t i = 0; i < members_.size(); ++i) axes[i][axis] = best[i];
    }
    nodes = derive(call, axes);
  }
  if (!nodes) return internal_error("the gradient of '" + model_.training.graph.nodes[forward_].name + "' fits its tensors axis by axis, and not together");
  BackwardNeeds needed = needs(call, *nodes);
  return BackwardLayouts{std::move(*nodes), std::move(needed)};
}

BackwardNeeds BackwardAxes::needs(const CallLayouts& call, const std::vector<CallLayouts>& nodes) const {
  BackwardNeeds needs;
  std::map<ValueId, Layout> have = at_hand(call);
  const auto convert = [&](ValueId value, const Layout& from, const Layout& to) {
    InnerConversion conversion{value, from, to};
    const bool known = std::find(needs.conversions.begin(), needs.conversions.end(), conversion) != needs.conversions.end();
    if (from != to && !known) needs.conversions.push_back(std::move(conversion));
  };
  for (std::size_t n = 0; n < members_.size(); ++n) {
    const Node& node = model_.training.graph.nodes[members_[n].id];
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i].value;
      const Layout handed = handed_layout(model_.atoms.nodes[members_[n].id], nodes[n], i);
      const auto known = have.find(operand);
      if (known != have.end()) convert(operand, known->second, handed);
      else needs.constants.push_back({operand, handed});
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) have[node.results[i]] = nodes[n].results[i].value;
  }
  for (const auto& [value, operand] : wanted_) convert(value, have.at(value), call.operands[operand].gradient);
  return needs;
}

}  // namespace meshwright
