#include "strategy/call_pricer.h"

#include <algorithm>

#include "cost/own_part.h"
#include "meshwright/conversion.h"
#include "strategy/enumerate.h"

namespace meshwright {

std::vector<FactorShare> factor_shares(const AtomizedNode& node, const Mesh& mesh, const std::vector<AxisChoice>& axes) {
  std::vector<FactorShare> shares(node.rule.factors.size());
  for (FactorId factor = 0; factor < shares.size(); ++factor) {
    // A whole factor may have cuts of others inside, and no atoms of its own.
    if (node.rule.factors[factor].whole) {
      shares[factor].extent = node.rule.factors[factor].size;
      continue;
    }
    for (std::size_t atom = 0; atom < node.factor_atoms[factor].size(); ++atom) {
      std::int64_t shards = 1;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        const AxisChoice& choice = axes[axis];
        const bool shards_factor = choice.use == AxisUse::factor || choice.use == AxisUse::exchange;
        if (shards_factor && choice.factor == factor && choice.atom == atom) shards *= mesh.axes[axis].size;
      }
      shares[factor].shards *= shards;
      shares[factor].extent *= (node.factor_atoms[factor][atom] + shards - 1) / shards;
    }
  }
  return shares;
}

// Sums up what a family emits.
class CallPricer::Builder final : public LocalBuilder {
 public:
  // With `prices` false it only finds out whether the op is itself on local shapes.
  Builder(const CallPricer& of, std::vector<ShardedType> values, bool prices) : of_(of), values_(std::move(values)), prices_(prices) {}

  ProgramValueId make(ShardedType type) override {
    values_.push_back(std::move(type));
    return static_cast<ProgramValueId>(values_.size() - 1);
  }
  void retype(ProgramValueId own, ShardedType type) override { values_[own] = std::move(type); }
  [[nodiscard]] const ShardedType& type(ProgramValueId value) const override { return values_[value]; }

  void emit(std::string op, const std::vector<Operand>& operands, Attributes attributes, RankAttributes rank_attributes,
            const std::vector<ProgramValueId>& results) override {
    const bool is_itself = op == of_.node_.op && results == of_.node_.results && operands == of_.node_.operands;
    steps_ |= !is_itself || ++emitted_ > 1;
    if (!prices_) return;
    Node node;
    node.op = std::move(op);
    node.name = of_.node_.name;
    node.attributes = std::move(attributes);
    const std::vector<std::int64_t> first(of_.mesh_.rank(), 0);
    for (const auto& [key, integers] : rank_attributes) node.attributes[key] = integers.at(first);
    std::vector<const ShardedType*> operand_types, result_types;
    for (const Operand& operand : operands) {
      if (operand.value == kNoId) continue;
      node.operands.push_back(operand);
      operand_types.push_back(&values_[operand.value]);
    }
    for (const ProgramValueId result : results) result_types.push_back(&values_[result]);
    node.results = results;
    const FusedCall fused = fused_step(of_.fused_, of_.node_, node.operands, node.results);
    const double seconds = call_seconds(of_.profile_, of_.ops_, of_.mesh_, node, operand_types, result_types, fused);
    price_.seconds += seconds;
    price_.host_seconds += of_.launch_seconds(seconds, fused);
  }

  [[nodiscard]] bool steps() const { return steps_; }
  [[nodiscard]] const CallPrice& price() const { return price_; }

 private:
  void take_move(ProgramValueId from, const Move& move, ProgramValueId, bool along) override {
    steps_ = true;
    if (!prices_ || along) return;
    const ShardedType& type = values_[from];
    const ConversionProblem problem{of_.mesh_, type.atoms, of_.profile_, size_bytes(type.type.dtype), false};
    const MovePrice price = move_price(problem, type.layout, move);
    price_.communication_seconds += to_seconds(price.ticks);
    price_.host_seconds += to_seconds(price.host_ticks);
  }

  const CallPricer& of_;
  std::vector<ShardedType> values_;
  const bool prices_;
  bool steps_ = false;
  int emitted_ = 0;
  CallPrice price_;
};

CallPricer::CallPricer(const ProblemInput& input, const Graph& graph, const AtomizedGraph& atoms, NodeId node)
    : atoms_(atoms.nodes[node]),
      family_(atoms_.ruled ? input.ops.find(graph.nodes[node].op) : nullptr),
      ops_(input.ops),
      profile_(input.profile),
      mesh_(input.mesh),
      fused_(fused_call(input.model, input.training, node)),
      node_(graph.nodes[node]) {
  std::vector<DType> operand_dtypes, result_dtypes;
  ProgramValueId next = 0;
  for (Operand& operand : node_.operands) {
    operands_.push_back(graph.type(operand.value));
    operand_shapes_.push_back(&atoms.values[operand.value]);
    operand_dtypes.push_back(operands_.back().dtype);
    operand.value = next++;
  }
  for (ValueId& result : node_.results) {
    results_.push_back(graph.type(result));
    result_shapes_.push_back(&atoms.values[result]);
    result_dtypes.push_back(results_.back().dtype);
    result = next++;
  }
  dtype_ = computing_dtype(operand_dtypes, result_dtypes);
  product_roles_ = product_roles(atoms_.rule, atoms_.cost);
}

Result<CallPrice> CallPricer::price(const CallLayouts& call) {
  const Result<bool> steps = takes_steps(call);
  if (!steps) return steps.error();
  if (!*steps) {
    const double seconds = call_seconds(profile_, atoms_.cost, share(call), fused_);
    return CallPrice{seconds, 0, launch_seconds(seconds, fused_)};
  }
  Builder build(*this, {}, true);
  if (Status status = localize(call, build); !status) return status.error();
  return build.price();
}

double CallPricer::launch_seconds(double seconds, const FusedCall& fused) const {
  return fused.launches && to_ticks(seconds) > 0 ? profile_.device.host_launch_seconds : 0;
}

// An op is more than itself if it is so for what one of the axes does.
Result<bool> CallPricer::takes_steps(const CallLayouts& call) {
  if (family_ == nullptr) return false;
  bool any = false;
  for (std::size_t axis = 0; axis < call.axes.size(); ++axis) {
    const AxisChoice& choice = call.axes[axis];
    const auto [found, inserted] = steps_.try_emplace({mesh_.axes[axis].size, choice.use, choice.factor, choice.atom, choice.group}, true);
    if (inserted) {
      std::vector<AxisChoice> alone(mesh_.rank());
      alone[axis] = choice;
      const std::optional<CallLayouts> layouts = derive_layouts(atoms_, mesh_, operand_shapes_, result_shapes_, alone);
      if (layouts) {
        Builder build(*this, {}, false);
        if (Status status = localize(*layouts, build); !status) return status.error();
        found->second = build.steps();
      }
    }
    any |= found->second;
  }
  return any;
}

Status CallPricer::localize(const CallLayouts& call, Builder& build) const {
  std::vector<ShardedType> operands, results;
  for (std::size_t i = 0; i < operands_.size(); ++i) operands.push_back({operands_[i], *operand_shapes_[i], handed_layout(atoms_, call, i)});
  for (std::size_t i = 0; i < results_.size(); ++i) results.push_back({results_[i], *result_shapes_[i], call.results[i].value});
  for (const ShardedType& operand : operands) build.make(operand);
  for (const ShardedType& result : results) build.make(result);
  return family_->localize({{node_, operands_, results_}, std::move(operands), std::move(results), mesh_, build});
}

CallShare CallPricer::share(const CallLayouts& call) const {
  CallShare share;
  share.dtype = dtype_;
  for (const FactorShare& factor : factor_shares(atoms_, mesh_, call.axes)) {
    share.extents.push_back(factor.extent);
    share.shards.push_back(factor.shards);
  }
  share.product = product_shape(product_roles_, share.extents);
  for (const Exchange& exchange : atoms_.rule.exchanges) {
    if (share.shards[exchange.to] > 1) share.longer = std::max(share.longer, exchange.imbalance);
  }
  const auto bytes = [&](const Layout& layout, const AtomShape& shape, DType dtype) { return local_bytes(layout, shape, mesh_, size_bytes(dtype)); };
  for (std::size_t i = 0; i < operands_.size(); ++i) share.operand_bytes.push_back(bytes(call.operands[i].value, *operand_shapes_[i], operands_[i].dtype));
  for (std::size_t i = 0; i < results_.size(); ++i) share.result_bytes.push_back(bytes(call.results[i].value, *result_shapes_[i], results_[i].dtype));
  take_own_part(atoms_.rule, share);
  return share;
}

}  // namespace meshwright
