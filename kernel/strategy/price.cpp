#include "strategy/price.h"

#include <algorithm>

#include "strategy/enumerate.h"

namespace meshwright {

namespace {

// Resident bytes of rank-private results over those that their layouts say: an exchange makes room for what may come.
double own_share(const AtomizedNode& node, const Mesh& mesh, const CallLayouts& call) {
  double share = 1;
  if (node.rule.exchanges.empty()) return share;
  const std::vector<FactorShare> shares = factor_shares(node, mesh, call.axes);
  for (std::size_t e = 0; e < node.rule.exchanges.size(); ++e) {
    const Exchange& exchange = node.rule.exchanges[e];
    std::int64_t devices = 1;
    for (std::size_t axis = 0; axis < call.axes.size(); ++axis) {
      const AxisChoice& choice = call.axes[axis];
      if (choice.use == AxisUse::exchange && choice.group == e) devices *= mesh.axes[axis].size;
    }
    if (devices == 1) continue;
    const std::int64_t rows = shares[exchange.from].extent;
    const std::int64_t capacity = exchange.capacity(rows, node.rule.factors[exchange.to].size / devices, devices);
    share = static_cast<double>(devices * capacity) / static_cast<double>(rows * exchange.copies);
  }
  return share;
}

// Of a model without a backward: on the matrix units one more contraction for each differentiable operand that is no addend,
// elsewhere twice the forward's work; it reads what the forward did and the gradients, and writes gradients.
double assumed_backward_seconds(const AtomizedNode& node, const Graph& graph, const Node& call, const CostProfile& profile, CallShare share) {
  if (node.cost.alias_backward) return 0;
  OpCost cost = node.cost;
  cost.alias = cost.gathers = false;
  std::int64_t written = 0;
  for (const std::int64_t bytes : share.result_bytes) written += bytes;
  const std::vector<std::int64_t> whole = share.operand_bytes;
  for (std::int64_t& bytes : share.operand_bytes) bytes = node.cost.gathers ? std::min(bytes, written) : bytes;
  double products = 0;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (!graph.values[call.operands[i].value].requires_gradient) continue;
    share.operand_bytes.push_back(whole[i]);  // its gradient
    if (!node.rule.operands[i].addend) products += 1;
  }
  const double ratio = node.cost.backward_ratio > 0 ? node.cost.backward_ratio : node.cost.matrix ? products : 2.0;
  for (WorkTerm& term : cost.forward) term.flops *= ratio;
  return call_seconds(profile, cost, share);
}

}  // namespace

NodePricer::NodePricer(const ProblemInput& input, NodeId node, ConversionPaths& paths)
    : input_(input), node_(node), paths_(paths), forward_(input, input.graph(), input.atoms(), node) {
  if (!input.model.backward) return;
  const TrainingAnalysis& model = *input.model.backward;
  axes_.emplace(model, input.mesh, node);
  for (const NodeId id : model.backward_of[node]) backward_.emplace_back(input, model.training.graph, model.atoms, id);
}

Result<std::vector<ConstantUse>> NodePricer::price(Strategy& strategy) {
  const Node& call = input_.graph().nodes[node_];
  const AtomizedNode& atoms = input_.atoms().nodes[node_];
  NodeStrategy& node = *strategy.node();
  std::vector<ConstantUse> constants;
  Result<CallPrice> forward = forward_.price(node.call);
  if (!forward) return forward.error();
  strategy.forward_seconds = forward->seconds;
  strategy.forward_host_seconds = forward->host_seconds;
  node.forward_communication_seconds = forward->communication_seconds;
  node.own_share = own_share(atoms, input_.mesh, node.call);
  bool differentiable = false;
  for (const ValueId result : call.results) differentiable |= input_.graph().values[result].requires_gradient;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const ValueId operand = call.operands[i].value;
    const Layout handed = handed_layout(atoms, node.call, i);
    if (!input_.graph().values[operand].requires_gradient) constants.push_back({operand, handed});
    else if (Status status = add_conversion(operand, node.call.operands[i].value, handed, node.forward_shared_seconds); !status) return status.error();
    const Value& value = input_.graph().values[operand];
    const bool is_parameter = value.producer == kNoId && value.requires_gradient;  // whose own variable counts its memory
    if (differentiable && !atoms.cost.alias && !is_parameter) {
      node.saved_bytes += local_bytes(node.call.operands[i].value, input_.atoms().values[operand], input_.mesh, size_bytes(input_.graph().type(operand).dtype));
    }
  }
  node.forward_communication_seconds += node.forward_shared_seconds;
  if (axes_) {
    if (Status status = price_backward(strategy, constants); !status) return status.error();
  } else if (differentiable) {
    strategy.backward_seconds = assumed_backward_seconds(atoms, input_.graph(), call, input_.profile, forward_.share(node.call));
  }
  return constants;
}

Status NodePricer::price_backward(Strategy& strategy, std::vector<ConstantUse>& constants) {
  NodeStrategy& node = *strategy.node();
  Result<BackwardLayouts> backward = axes_->choose(node.call);
  if (!backward) return backward.error();
  for (std::size_t n = 0; n < backward_.size(); ++n) {
    Result<CallPrice> price = backward_[n].price(backward->nodes[n]);
    if (!price) return price.error();
    strategy.backward_seconds += price->seconds;
    strategy.backward_host_seconds += price->host_seconds;
    node.backward_communication_seconds += price->communication_seconds;
  }
  constants.insert(constants.end(), backward->needs.constants.begin(), backward->needs.constants.end());
  for (const InnerConversion& inner : backward->needs.conversions) {
    if (Status status = add_conversion(inner.value, inner.from, inner.to, node.backward_communication_seconds); !status) return status;
  }
  return Done{};
}

Status NodePricer::add_conversion(ValueId value, const Layout& from, const Layout& to, double& seconds) {
  if (from == to) return Done{};
  const AtomShape& shape = training_atoms(input_.model).values[value];
  const DType dtype = training_graph(input_.model).type(value).dtype;
  const Result<const ConversionPath*> path = paths_.find({input_.mesh, shape, input_.profile, size_bytes(dtype), false}, from, to);
  if (!path) return path.error();
  seconds += to_seconds((*path)->ticks);
  return Done{};
}

void price_fork(const AtomShape& shape, const TensorType& type, const ForkSums& sums, const ProblemInput& input,
                Strategy& strategy) {
  if (sums.count == 0) return;
  const ShardedType gradient{type, shape, strategy.result(0).gradient};
  Node sum;
  sum.op = "aten.add.Tensor";
  sum.operands = {{"self", 0}, {"other", 1}};
  sum.results = {2};
  const auto seconds = [&](const FusedCall& fused) {
    return call_seconds(input.profile, input.ops, input.mesh, sum, {&gradient, &gradient}, {&gradient}, fused);
  };
  const auto add = [&](double count, const FusedCall& fused) {
    const double each = seconds(fused);
    strategy.backward_seconds += count * each;
    if (fused.launches && to_ticks(each) > 0) strategy.backward_host_seconds += count * input.profile.device.host_launch_seconds;
  };
  if (sums.fused.empty()) add(static_cast<double>(sums.count), {});
  for (const FusedCall* fused : sums.fused) add(1, *fused);
}

double received_seconds(const AtomShape& shape, const TensorType& type, const Layout& layout, std::size_t stages, const ProblemInput& input) {
  return static_cast<double>(stages) * travel_seconds(input.profile, local_bytes(layout, shape, input.mesh, size_bytes(type.dtype)));
}

void price_seed(const AtomShape& shape, const TensorType& type, const ProblemInput& input, Strategy& strategy) {
  const ShardedType gradient{type, shape, Layout(input.mesh.rank())};
  Node seed;
  seed.op = input.training.microbatches > 1 ? "aten.full" : "aten.ones";
  seed.results = {0};
  strategy.backward_seconds = call_seconds(input.profile, input.ops, input.mesh, seed, {}, {&gradient});
}

namespace {

// What is done with the gradient of each microbatch before it is reduced. What is added up behind a reduction hides as that
// does.
void price_sums(const AtomShape& shape, const TensorType& type, const ProblemInput& input, Strategy& strategy) {
  const TrainingSettings& training = input.training;
  ParameterStrategy& parameter = *strategy.parameter();
  const ShardedType made{type, shape, parameter.compute};
  ShardedType reduced = made;
  reduced.type.dtype = training.gradient_dtype(type.dtype);
  Node node;
  node.results = {1};
  if (reduced.type.dtype != type.dtype) {
    node.op = "aten._to_copy";
    node.operands = {{"self", 0}};
    strategy.backward_seconds += call_seconds(input.profile, input.ops, input.mesh, node, {&made}, {&reduced});
  }
  if (training.microbatches == 1 || training.reduces_each_microbatch(parameter.zero)) return;
  strategy.backward_seconds += accumulate_seconds(input.profile, local_bytes(parameter.compute, shape, input.mesh, training.gradient_bytes(type.dtype)));
  if (reduced.type.dtype != type.dtype) return;  // the sum begins as the first cast, else as zeros
  node.op = "aten.zeros";
  node.operands.clear();
  parameter.update_seconds += call_seconds(input.profile, input.ops, input.mesh, node, {}, {&reduced});
}

}  // namespace

void price_parameter(const AtomShape& shape, const TensorType& type, const ProblemInput& input, Strategy& strategy) {
  const TrainingSettings& training = input.training;
  const DType dtype = type.dtype;
  const auto bytes = [&](const Layout& layout, std::int64_t element_bytes) { return local_bytes(layout, shape, input.mesh, element_bytes); };
  ParameterStrategy& parameter = *strategy.parameter();
  const bool gradient_in_shards = parameter.zero >= ZeroStage::gradient;
  parameter.state_bytes = bytes(parameter.stored.value, size_bytes(dtype)) + bytes(parameter.state, training.optimizer_bytes(dtype));
  parameter.gradient_bytes = bytes(gradient_in_shards ? parameter.state : parameter.compute, training.gradient_bytes(dtype));
  parameter.update_seconds = update_seconds(input.profile, local_elements(parameter.state, shape, input.mesh), training.step_bytes(dtype), dtype);
  price_sums(shape, type, input, strategy);
}

}  // namespace meshwright
