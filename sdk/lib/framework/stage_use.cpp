#include "stage_use.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

#include "meshwright/strategy.h"

namespace meshwright::framework {

namespace {

constexpr std::size_t kRoles = 4;

class UseReader {
 public:
  explicit UseReader(const Plan& plan) : plan_(plan), batch_(batch_atoms(plan.model, &plan.part)), weights_(weights_of(plan.graph())) {}

  StageUse read() {
    const std::size_t axes = plan_.mesh.rank();
    std::vector<std::array<double, kRoles>> seconds(axes);        // by axis and role, of ops with weights that are no experts
    std::vector<std::array<double, kRoles>> with_experts(axes);   // and of experts
    std::vector<double> experts(axes, 0), all_experts(axes, 0);   // of experts: where they lie over the axis, and all
    std::vector<double> expert_tensor(axes, 0);                   // where each one's weights are in shards
    std::vector<double> travelling(axes, 0);                      // where tokens travel over the axis to their experts
    for (const PlannedVariable& variable : plan_.variables) {
      const PlannedNode* node = variable.node();
      if (node == nullptr) continue;
      const double takes = variable.forward_seconds + variable.backward_seconds;
      use_.seconds += takes;
      const bool of_experts = has_experts(plan_, node->node);
      for (std::size_t axis = 0; axis < axes; ++axis) {
        const std::optional<AxisRole> role = role_of(*node, axis);
        if (!role) continue;
        (of_experts ? with_experts : seconds)[axis][static_cast<std::size_t>(*role)] += takes;
        if (of_experts) all_experts[axis] += takes;
        if (of_experts && node->call.axes[axis].use == AxisUse::exchange) travelling[axis] += takes;
        if (of_experts && lies_over(*node, axis)) experts[axis] += takes;
        else if (of_experts && *role == AxisRole::tensor) expert_tensor[axis] += takes;
      }
    }
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const bool any = *std::ranges::max_element(seconds[axis]) > 0;
      const auto& of = any ? seconds[axis] : with_experts[axis];
      const auto role = *std::ranges::max_element(of) > 0 ? static_cast<AxisRole>(std::ranges::max_element(of) - of.begin()) : AxisRole::idle;
      roles_.push_back(role);
      const std::int64_t size = plan_.mesh.axes[axis].size;
      (role == AxisRole::data ? use_.data : role == AxisRole::tensor ? use_.tensor : role == AxisRole::context ? use_.context : use_.idle) *= size;
      const bool over = experts[axis] > all_experts[axis] / 2, inside = expert_tensor[axis] > all_experts[axis] / 2;
      if (over) use_.experts *= size;
      if (inside) use_.expert_tensor *= size;
      if (role == AxisRole::data && travelling[axis] > all_experts[axis] / 2) use_.expert_data *= size;
      else if ((over || inside) && role != AxisRole::tensor) use_.experts_apart *= size;
      in_experts_.push_back(over || inside);
    }
    count_mixed();
    find_sequence();
    use_.roles = roles_;
    return std::move(use_);
  }

 private:
  // Nothing of an op without weights.
  [[nodiscard]] std::optional<AxisRole> role_of(const PlannedNode& planned, std::size_t axis) const {
    const Node& node = plan_.graph().nodes[planned.node];
    bool any_weight = false;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!weights_[node.operands[i].value]) continue;
      any_weight = true;
      if (planned.call.operands[i].value[axis].is_shard()) return AxisRole::tensor;
    }
    if (!any_weight) return std::nullopt;
    std::optional<AxisRole> role;
    const auto look = [&](ValueId value, Placement placement) {
      if (!placement.is_shard()) return;
      const bool is_batch = batch_.contains(plan_.model.atoms->classes[value][placement.atom()]);
      if (!role || is_batch) role = is_batch ? AxisRole::data : AxisRole::context;
    };
    for (std::size_t i = 0; i < node.operands.size(); ++i) look(node.operands[i].value, planned.call.operands[i].value[axis]);
    for (std::size_t i = 0; i < node.results.size(); ++i) look(node.results[i], planned.call.results[i].value[axis]);
    return role.value_or(AxisRole::idle);
  }

  // Whether the axis shards the experts themselves.
  [[nodiscard]] bool lies_over(const PlannedNode& planned, std::size_t axis) const {
    const AxisChoice& choice = planned.call.axes[axis];
    if (choice.use == AxisUse::exchange) return true;
    const std::vector<Exchange>& exchanges = plan_.model.atoms->nodes[planned.node].rule.exchanges;
    return choice.use == AxisUse::factor && std::ranges::any_of(exchanges, [&](const Exchange& exchange) { return exchange.to == choice.factor; });
  }

  void count_mixed() {
    for (const PlannedVariable& variable : plan_.variables) {
      const PlannedNode* node = variable.node();
      if (node == nullptr) continue;
      bool any = false, other = false;
      for (std::size_t axis = 0; axis < roles_.size(); ++axis) {
        const std::optional<AxisRole> role = role_of(*node, axis);
        any = any || role.has_value();
        other = other || (role && *role != roles_[axis] && !(has_experts(plan_, node->node) && in_experts_[axis]));
      }
      const double takes = variable.forward_seconds + variable.backward_seconds;
      if (any) use_.weight_seconds += takes;
      if (other) use_.mixed_seconds += takes;
    }
  }

  void find_sequence() {
    double cut = 0, all = 0;
    for (const PlannedVariable& variable : plan_.variables) {
      const PlannedNode* node = variable.node();
      if (node == nullptr || plan_.graph().nodes[node->node].op.find("norm") == std::string::npos) continue;
      const double takes = variable.forward_seconds + variable.backward_seconds;
      for (std::size_t axis = 0; axis < roles_.size(); ++axis) {
        if (roles_[axis] != AxisRole::tensor) continue;
        all += takes;
        if (node->call.results.front().value[axis].is_shard()) cut += takes;
      }
    }
    use_.sequence_parallel = cut > all / 2;
  }

  const Plan& plan_;
  const std::set<std::uint32_t> batch_;
  const std::vector<bool> weights_;
  StageUse use_;
  std::vector<AxisRole> roles_;   // by axis
  std::vector<bool> in_experts_;  // by axis: experts lie over it, or are in shards
};

}  // namespace

bool StageUse::same_degrees(const StageUse& other) const {
  return data == other.data && tensor == other.tensor && context == other.context && idle == other.idle && experts == other.experts && expert_tensor == other.expert_tensor;
}

std::vector<bool> weights_of(const Graph& graph) {
  std::vector<bool> weights(graph.values.size(), false);
  for (const Source& source : graph.sources) {
    const std::vector<std::int64_t>& shape = graph.type(source.value).shape;
    weights[source.value] = source.kind == SourceKind::parameter && std::ranges::count_if(shape, [](std::int64_t size) { return size > 1; }) >= 2;
  }
  for (const Node& node : graph.nodes) {
    const bool made_of_one = node.operands.size() == 1 && weights[node.operands.front().value];
    for (const ValueId result : node.results) weights[result] = made_of_one;
  }
  return weights;
}

bool has_experts(const Plan& plan, NodeId node) { return !plan.model.atoms->nodes[node].rule.exchanges.empty(); }

StageUse use_of_stage(const Plan& plan) { return UseReader(plan).read(); }

}  // namespace meshwright::framework
