#include "program/backward_axes.h"

#include <algorithm>
#include <limits>

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

class AxisSearch {
 public:
  explicit AxisSearch(const BackwardGroup& group) : group_(group) {
    for (const NodeId id : group.nodes) {
      const Node& node = group.graph.nodes[id];
      Member& member = members_.emplace_back();
      member.id = id;
      member.axes.resize(group.mesh.rank());
      std::vector<bool> floating;
      for (const Operand& operand : node.operands) {
        member.operands.push_back(&group.atoms.values[operand.value]);
        floating.push_back(is_floating(group.graph.type(operand.value).dtype));
      }
      for (const ValueId result : node.results) member.results.push_back(&group.atoms.values[result]);
      const std::vector<TensorRule>& tensors = group.atoms.nodes[id].rule.operands;
      member.reads_own = std::any_of(tensors.begin(), tensors.end(), [](const TensorRule& tensor) { return tensor.own; });
      member.choices = axis_choices(group.atoms.nodes[id], floating);
      std::erase_if(member.choices, [](const AxisChoice& choice) { return choice.use == AxisUse::pass_backward; });
    }
  }

  Result<std::vector<Strategy>> run() {
    for (std::size_t axis = 0; axis < group_.mesh.rank(); ++axis) {
      axis_ = axis;
      best_cost_ = std::numeric_limits<double>::infinity();
      visits_ = 0;
      best_.clear();
      have_.clear();
      for (const auto& [value, layout] : group_.available) have_[value] = layout[axis];
      visit(0, 0);
      if (best_.size() < members_.size()) return cannot_work_alike();
      for (std::size_t i = 0; i < members_.size(); ++i) members_[i].axes[axis] = best_[i];
    }
    std::vector<Strategy> strategies;
    for (Member& member : members_) strategies.push_back(*derive(member));
    return strategies;
  }

 private:
  struct Member {
    NodeId id = 0;
    std::vector<const AtomShape*> operands, results;
    std::vector<AxisChoice> choices;
    std::vector<AxisChoice> axes;
    bool reads_own = false;
  };

  struct Option {
    AxisChoice choice;
    double cost = 0;
    std::vector<Placement> results;
  };

  std::optional<Strategy> derive(const Member& member) const {
    return derive_strategy(group_.atoms.nodes[member.id], group_.mesh, member.operands, member.results, member.axes);
  }

  // Whether a node shares its work over this axis as the op does. Factors of both are known by their names.
  bool works_alike(const Member& member, const AxisChoice& choice) const {
    const AxisChoice& forward = group_.axes[axis_];
    const auto shares = [](const AxisChoice& one) { return one.use == AxisUse::factor || one.use == AxisUse::exchange; };
    if (!shares(choice) || !shares(forward)) return shares(choice) == shares(forward);
    const auto name = [&](NodeId node, const AxisChoice& one) { return group_.atoms.nodes[node].rule.factors[one.factor].name; };
    return choice.use == forward.use && choice.atom == forward.atom && choice.group == forward.group &&
           name(member.id, choice) == name(group_.forward, forward);
  }

  [[nodiscard]] Error cannot_work_alike() const {
    const Node& forward = group_.graph.nodes[group_.forward];
    return plugin_failed("the gradient of '" + forward.name + "' reads what " + forward.op + " saved on the same rank, but cannot share its work over '" +
                         to_string(group_.axes[axis_], group_.atoms.nodes[group_.forward]) + "' as the op does; its rule must allow that too");
  }

  double bytes(ValueId value) const { return static_cast<double>(group_.graph.type(value).bytes()); }

  std::vector<Option> options(Member& member) const {
    const Node& node = group_.graph.nodes[member.id];
    std::vector<Option> options;
    for (const AxisChoice& choice : member.choices) {
      if (member.reads_own && !works_alike(member, choice)) continue;
      member.axes[axis_] = choice;
      const std::optional<Strategy> strategy = derive(member);
      if (!strategy) continue;
      Option option{choice, 0, {}};
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const auto known = have_.find(node.operands[i].value);
        if (known == have_.end()) continue;
        option.cost += bytes(node.operands[i].value) * mismatch(known->second, strategy->operands[i].value[axis_]);
      }
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        option.results.push_back(strategy->results[i].value[axis_]);
        if (choice.use == AxisUse::repeat) option.cost += 1e-4 * bytes(node.results[i]);  // the same work everywhere
      }
      options.push_back(std::move(option));
    }
    member.axes[axis_] = {};
    std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.cost < b.cost; });
    return options;
  }

  double end_cost() const {
    double cost = 0;
    for (const auto& [value, layout] : group_.wanted) cost += bytes(value) * mismatch(have_.at(value), layout[axis_]);
    return cost;
  }

  // Depth first, cheapest first, leaving off where the cost already is that of the best.
  void visit(std::size_t at, double cost) {
    if (cost >= best_cost_) return;
    if (at == members_.size()) {
      cost += end_cost();
      if (cost < best_cost_) {
        best_cost_ = cost;
        best_ = chosen_;
      }
      return;
    }
    const Node& node = group_.graph.nodes[members_[at].id];
    for (const Option& option : options(members_[at])) {
      if (best_cost_ < std::numeric_limits<double>::infinity() && ++visits_ > kMaxVisits) return;
      for (std::size_t i = 0; i < node.results.size(); ++i) have_[node.results[i]] = option.results[i];
      chosen_.push_back(option.choice);
      visit(at + 1, cost + option.cost);
      chosen_.pop_back();
    }
  }

  static constexpr int kMaxVisits = 20'000;

  const BackwardGroup& group_;
  std::vector<Member> members_;
  std::size_t axis_ = 0;
  std::map<ValueId, Placement> have_;
  std::vector<AxisChoice> chosen_, best_;
  double best_cost_ = 0;
  int visits_ = 0;
};

}  // namespace

Result<std::vector<Strategy>> choose_backward_axes(const BackwardGroup& group) { return AxisSearch(group).run(); }

}  // namespace meshwright
