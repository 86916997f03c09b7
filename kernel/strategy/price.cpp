#include "strategy/price.h"

#include <algorithm>

namespace meshwright {

namespace {

double local_bytes(const Layout& layout, const TensorInfo& tensor, const Mesh& mesh) {
  return static_cast<double>(local_elements(layout, *tensor.shape, mesh) * size_bytes(tensor.dtype));
}

// Over how many devices a strategy cuts a factor, and the largest local extent that is left of it.
struct FactorShare {
  std::int64_t shards = 1;
  std::int64_t extent = 1;
};

std::vector<FactorShare> factor_shares(const AtomizedNode& node, const Mesh& mesh, const Strategy& strategy) {
  std::vector<FactorShare> shares(node.rule.factors.size());
  for (FactorId factor = 0; factor < shares.size(); ++factor) {
    // A whole factor may have cuts of others inside, and no atoms of its own.
    if (node.rule.factors[factor].whole) {
      shares[factor].extent = node.rule.factors[factor].size;
      continue;
    }
    for (std::size_t atom = 0; atom < node.factor_atoms[factor].size(); ++atom) {
      std::int64_t shards = 1;
      for (std::size_t axis = 0; axis < strategy.axes.size(); ++axis) {
        const AxisChoice& choice = strategy.axes[axis];
        const bool shards_factor = choice.use == AxisUse::factor || choice.use == AxisUse::exchange;
        if (shards_factor && choice.factor == factor && choice.atom == atom) shards *= mesh.axes[axis].size;
      }
      shares[factor].shards *= shards;
      shares[factor].extent *= (node.factor_atoms[factor][atom] + shards - 1) / shards;
    }
  }
  return shares;
}

double forward_flops(const AtomizedNode& node, const std::vector<FactorShare>& shares) {
  double sum = 0;
  for (const WorkTerm& term : node.cost.forward) {
    double flops = term.flops;
    for (const FactorId factor : term.factors) flops *= static_cast<double>(shares[factor].extent);
    if (term.is_causal) {
      const auto shards = static_cast<double>(shares[term.causal].shards);
      flops *= (2 * shards - 1) / (2 * shards);
    }
    sum += flops;
  }
  return sum;
}

DType working_dtype(const std::vector<TensorInfo>& operands, const std::vector<TensorInfo>& results) {
  for (const auto* tensors : {&operands, &results}) {
    for (const TensorInfo& tensor : *tensors) {
      if (is_floating(tensor.dtype)) return tensor.dtype;
    }
  }
  return DType::float32;
}

void price_internal(const AtomizedNode& node, const Mesh& mesh, const std::vector<FactorShare>& shares, Strategy& strategy) {
  for (const InternalCollective& collective : node.rule.internal) {
    double bytes = static_cast<double>(collective.element_bytes);
    for (const FactorId factor : collective.tensor) bytes *= static_cast<double>(shares[factor].extent);
    for (std::size_t axis = 0; axis < strategy.axes.size(); ++axis) {
      const AxisChoice& choice = strategy.axes[axis];
      if (choice.use != AxisUse::factor || choice.factor != collective.over) continue;
      const double seconds = collective_seconds(CollectiveKind::all_reduce, mesh.axes[axis], bytes);
      (collective.backward ? strategy.backward_communication_seconds : strategy.forward_communication_seconds) += seconds;
    }
  }
}

// What an exchange sends, and how much longer the work takes where the data decides who does it.
double price_exchanges(const AtomizedNode& node, const Mesh& mesh, const std::vector<FactorShare>& shares, Strategy& strategy) {
  double imbalance = 1;
  for (std::size_t e = 0; e < node.rule.exchanges.size(); ++e) {
    const Exchange& exchange = node.rule.exchanges[e];
    std::int64_t devices = 1;
    for (std::size_t axis = 0; axis < strategy.axes.size(); ++axis) {
      const AxisChoice& choice = strategy.axes[axis];
      if (choice.use == AxisUse::exchange && choice.group == e) devices *= mesh.axes[axis].size;
    }
    if (devices > 1 || shares[exchange.to].shards > 1) imbalance = std::max(imbalance, exchange.imbalance);
    const std::int64_t capacity =
        exchange.capacity(shares[exchange.from].extent, node.rule.factors[exchange.to].size / devices, devices);
    const auto bytes = static_cast<double>(devices * capacity * exchange.row_bytes);
    if (devices > 1) strategy.own_share = static_cast<double>(devices * capacity) / static_cast<double>(shares[exchange.from].extent * exchange.copies);
    for (std::size_t axis = 0; axis < strategy.axes.size(); ++axis) {
      const AxisChoice& choice = strategy.axes[axis];
      if (choice.use != AxisUse::exchange || choice.group != e) continue;
      const double seconds = collective_seconds(CollectiveKind::all_to_all, mesh.axes[axis], bytes);
      strategy.forward_communication_seconds += static_cast<double>(exchange.forward_moves) * seconds;
      strategy.backward_communication_seconds += static_cast<double>(exchange.backward_moves) * seconds;
    }
  }
  return imbalance;
}

}  // namespace

void price_node(const AtomizedNode& node, const Mesh& mesh, const CostProfile& profile,
                const std::vector<TensorInfo>& operands, const std::vector<TensorInfo>& results, Strategy& strategy) {
  const std::vector<FactorShare> shares = factor_shares(node, mesh, strategy);
  const double flops = forward_flops(node, shares) * price_exchanges(node, mesh, shares, strategy);
  Work forward, backward;
  forward.dtype = backward.dtype = working_dtype(operands, results);

  double result_bytes = 0, read_bytes = 0, gradient_bytes = 0;
  bool differentiable = false;
  double products = 0;  // contractions in the backward: one for each differentiable operand that is no addend
  for (std::size_t i = 0; i < results.size(); ++i) {
    result_bytes += local_bytes(strategy.results[i].value, results[i], mesh) * (node.rule.results[i].own ? strategy.own_share : 1);
    differentiable |= results[i].gradient;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const double bytes = local_bytes(strategy.operands[i].value, operands[i], mesh);
    read_bytes += node.cost.gathers ? std::min(bytes, result_bytes) : bytes;
    if (operands[i].gradient) {
      gradient_bytes += bytes;
      if (!node.rule.operands[i].addend) products += 1;
    }
    if (differentiable && !node.cost.alias && !operands[i].parameter) strategy.saved_bytes += static_cast<std::int64_t>(bytes);
  }
  if (!node.cost.alias) {
    (node.cost.matrix ? forward.matrix_flops : forward.vector_flops) = flops;
    forward.bytes = read_bytes + result_bytes;
  }
  strategy.forward_seconds = compute_seconds(profile, forward);
  if (differentiable && !node.cost.alias_backward) {
    const double backward_ratio = node.cost.backward_ratio > 0 ? node.cost.backward_ratio : node.cost.matrix ? products : 2.0;
    (node.cost.matrix ? backward.matrix_flops : backward.vector_flops) = flops * backward_ratio;
    backward.bytes = result_bytes + read_bytes + gradient_bytes;
    strategy.backward_seconds = compute_seconds(profile, backward);
  }
  price_internal(node, mesh, shares, strategy);
}

void price_fork(const AtomShape& shape, DType dtype, std::size_t uses, const Mesh& mesh, const CostProfile& profile,
                Strategy& strategy) {
  const double bytes = local_bytes(strategy.results[0].gradient, {&shape, dtype, true, false}, mesh);
  // Each further gradient is read, and so is the sum so far, which is written again.
  strategy.backward_seconds = static_cast<double>(uses - 1) * compute_seconds(profile, {.bytes = 3 * bytes, .dtype = dtype});
}

namespace {

// What is done with the gradient of each microbatch before it is reduced. What is added up behind a reduction hides as that
// does.
void price_sums(const AtomShape& shape, DType dtype, const TrainingSettings& training, const Mesh& mesh, const CostProfile& profile,
                Strategy& strategy) {
  const std::int64_t elements = local_elements(strategy.compute, shape, mesh);
  const DType reduced = training.reduce_dtype.value_or(dtype);
  if (reduced != dtype) {
    const auto bytes = static_cast<double>(elements * (size_bytes(dtype) + size_bytes(reduced)));
    strategy.backward_seconds += compute_seconds(profile, {.bytes = bytes, .dtype = dtype});
  }
  if (training.microbatches == 1 || training.reduces_each_microbatch(strategy.zero)) return;
  const auto sum = static_cast<double>(elements * size_bytes(reduced));
  strategy.backward_seconds += compute_seconds(profile, {.bytes = 3 * sum, .dtype = reduced});
  // It begins as zeros, or as the first cast.
  if (reduced == dtype) strategy.update_seconds += compute_seconds(profile, {.bytes = sum, .dtype = reduced});
}

}  // namespace

void price_parameter(const AtomShape& shape, DType dtype, const TrainingSettings& training, const Mesh& mesh,
                     const CostProfile& profile, Strategy& strategy) {
  const std::int64_t elements = local_elements(strategy.state, shape, mesh);
  strategy.state_bytes =
      local_elements(strategy.results[0].value, shape, mesh) * size_bytes(dtype) + elements * training.optimizer_bytes(dtype);
  const bool gradient_in_shards = strategy.zero >= ZeroStage::gradient;
  strategy.gradient_bytes =
      local_elements(gradient_in_shards ? strategy.state : strategy.compute, shape, mesh) * training.gradient_bytes(dtype);
  // One fused update of all parameters: no launch for each.
  Work update{.bytes = static_cast<double>(elements * training.step_bytes(dtype)), .dtype = dtype};
  strategy.update_seconds = std::max(0.0, compute_seconds(profile, update) - profile.device.launch_seconds);
  price_sums(shape, dtype, training, mesh, profile, strategy);
}

}  // namespace meshwright
