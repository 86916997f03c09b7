#include "meshwright/call_price.h"

#include <algorithm>

#include "cost/own_part.h"

namespace meshwright {

namespace {

double flops_of(const OpCost& cost, const CallShare& share) {
  double sum = 0;
  for (const WorkTerm& term : cost.forward) {
    double flops = term.flops;
    for (const FactorId factor : term.factors) flops *= static_cast<double>(share.extents[factor]);
    if (term.is_causal) {
      const auto shards = static_cast<double>(share.shards[term.causal]);
      flops *= (2 * shards - 1) / (2 * shards);
    }
    sum += flops;
  }
  return sum;
}

// How many ranks share each factor, read off a dimension that is this factor alone; 1 where there is none.
std::vector<std::int64_t> shards_of(const Rule& rule, const Mesh& mesh, const std::vector<const ShardedType*>& operands) {
  std::vector<std::int64_t> shards(rule.factors.size(), 1);
  for (std::size_t i = rule.operands.size(); i-- > 0;) {
    const ShardedType& type = *operands[i];
    const std::vector<std::int64_t> local = local_shape(type.layout, type.atoms, mesh);
    for (std::size_t d = local.size(); d-- > 0;) {
      const std::vector<FactorId>& factors = rule.operands[i].dimensions[d];
      if (factors.size() == 1 && local[d] > 0) shards[factors[0]] = (type.type.shape[d] + local[d] - 1) / local[d];
    }
  }
  return shards;
}

bool has_factor(const TensorRule& tensor, FactorId factor) {
  return std::ranges::any_of(tensor.dimensions, [&](const std::vector<FactorId>& factors) { return std::ranges::find(factors, factor) != factors.end(); });
}

}  // namespace

std::vector<ProductRole> product_roles(const Rule& rule, const OpCost& cost) {
  // Without factors nothing is known of its shape: not even that it is one.
  if (!cost.matrix || cost.attention || cost.forward.size() != 1 || cost.forward[0].factors.empty() || rule.results.empty()) return {};
  std::vector<const TensorRule*> sides;
  for (const TensorRule& operand : rule.operands) {
    if (!operand.addend) sides.push_back(&operand);
  }
  if (sides.size() < 2) return {};
  std::vector<ProductRole> roles(rule.factors.size(), ProductRole::none);
  for (const FactorId factor : cost.forward[0].factors) {
    const bool left = has_factor(*sides[0], factor), right = has_factor(*sides[1], factor), stays = has_factor(rule.results[0], factor);
    if (!stays && !(left && right)) return {};  // no product of matrices: a convolution, whose library cuts what it sums as it likes
    roles[factor] = !stays ? ProductRole::reduced : left && right ? ProductRole::batch : right ? ProductRole::column : ProductRole::row;
  }
  return roles;
}

ProductShape product_shape(const std::vector<ProductRole>& roles, const std::vector<std::int64_t>& extents) {
  if (roles.empty()) return {};
  ProductShape shape{1, 1, 1, 1};
  for (FactorId factor = 0; factor < roles.size(); ++factor) {
    const auto extent = static_cast<double>(extents[factor]);
    switch (roles[factor]) {
      case ProductRole::none: break;
      case ProductRole::batch: shape.batches *= extent; break;
      case ProductRole::row: shape.rows *= extent; break;
      case ProductRole::column: shape.columns *= extent; break;
      case ProductRole::reduced: shape.reduced *= extent; break;
    }
  }
  return shape;
}

DType computing_dtype(const std::vector<DType>& operands, const std::vector<DType>& results) {
  for (const auto* dtypes : {&operands, &results}) {
    const auto floating = std::find_if(dtypes->begin(), dtypes->end(), is_floating);
    if (floating != dtypes->end()) return *floating;
  }
  return DType::float32;
}

Work call_work(const OpCost& cost, const CallShare& share, const FusedCall& fused) {
  Work work;
  if (cost.alias) return work;
  work.dtype = share.dtype;
  work.launches = fused.launches;
  (cost.matrix ? work.matrix_flops : work.vector_flops) = share.longer * flops_of(cost, share);
  work.product = share.product;
  if (cost.attention) {
    work.keys = static_cast<double>(share.extents[cost.attention->keys]);
    work.head = static_cast<double>(share.extents[cost.attention->head]);
    work.is_backward = cost.attention->is_backward;
  }
  double made = 0;
  for (std::size_t i = 0; i < share.result_bytes.size(); ++i) {
    const auto bytes = static_cast<double>(share.result_bytes[i]);
    made += bytes;
    if (i >= fused.unwritten.size() || !fused.unwritten[i]) work.bytes += bytes;
  }
  for (std::size_t i = 0; i < share.operand_bytes.size(); ++i) {
    if (i < fused.unread.size() && fused.unread[i]) continue;
    const auto bytes = static_cast<double>(share.operand_bytes[i]);
    work.bytes += cost.gathers ? std::min(bytes, made) : bytes;
  }
  return work;
}

Work call_work(const OpTable& ops, const Mesh& mesh, const Node& node, const std::vector<const ShardedType*>& operands,
               const std::vector<const ShardedType*>& results, const FusedCall& fused) {
  OpCall call{node, {}, {}};
  CallShare share;
  std::vector<DType> operand_dtypes, result_dtypes;
  const auto add = [&](const ShardedType& type, std::vector<TensorType>& types, std::vector<std::int64_t>& bytes, std::vector<DType>& dtypes) {
    types.push_back(local_type(type, mesh));
    bytes.push_back(types.back().bytes());
    dtypes.push_back(types.back().dtype);
  };
  for (const ShardedType* operand : operands) add(*operand, call.operands, share.operand_bytes, operand_dtypes);
  for (const ShardedType* result : results) add(*result, call.results, share.result_bytes, result_dtypes);
  share.dtype = computing_dtype(operand_dtypes, result_dtypes);
  OpCost cost;  // of what nobody knows, or knows only on whole shapes
  if (const OpFamily* family = ops.find(node.op)) {
    const Result<Rule> rule = family->rule(call);
    if (const Result<OpCost> stated = rule ? family->cost(call, *rule) : Result<OpCost>(rule.error())) {
      cost = *stated;
      for (const Factor& factor : rule->factors) share.extents.push_back(factor.size);
      share.product = product_shape(product_roles(*rule, cost), share.extents);
      const bool causal = std::any_of(cost.forward.begin(), cost.forward.end(), [](const WorkTerm& term) { return term.is_causal; });
      const bool shares = causal || !rule->exchanges.empty();
      share.shards = shares ? shards_of(*rule, mesh, operands) : std::vector<std::int64_t>(share.extents.size(), 1);
      take_own_part(*rule, share);
    }
  }
  return call_work(cost, share, fused);
}

double call_seconds(const CostProfile& profile, const OpCost& cost, const CallShare& share, const FusedCall& fused) {
  return compute_seconds(profile, call_work(cost, share, fused));
}

double call_seconds(const CostProfile& profile, const OpTable& ops, const Mesh& mesh, const Node& node, const std::vector<const ShardedType*>& operands,
                    const std::vector<const ShardedType*>& results, const FusedCall& fused) {
  return compute_seconds(profile, call_work(ops, mesh, node, operands, results, fused));
}

double update_seconds(const CostProfile& profile, std::int64_t elements, std::int64_t bytes, DType dtype) {
  const Work work{.bytes = static_cast<double>(elements * bytes), .dtype = dtype};
  return std::max(0.0, compute_seconds(profile, work) - profile.device.launch_seconds);
}

double accumulate_seconds(const CostProfile& profile, std::int64_t bytes) {
  return compute_seconds(profile, {.bytes = 3 * static_cast<double>(bytes)});  // both are read, and one is written
}

double travel_seconds(const CostProfile& profile, std::int64_t bytes) { return profile.stage_latency_seconds + profile.stage_seconds_per_byte * static_cast<double>(bytes); }

}  // namespace meshwright
