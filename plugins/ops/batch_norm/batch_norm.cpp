// Batch normalization: channels shard freely; over a sharded batch or image the ranks add up their statistics, so that they
// normalize as one device does (a local rewrite).
#include "batch_norm.h"

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {kFunctional, kNoTraining, kNoStatistics, kLegit, kComposite, kBackwardSums, kBackwardInput,
                                kMean,       kVariance,   kApply,        nullptr};

constexpr double kFlops = 8;  // for each element: a sum, a difference, a square and its sum, a scale, and the affine part

class BatchNorm final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (is_sharded_step(call.node)) return replicated_rule(call.operands, call.results);  // it is sharded already
    const TensorType& input = *call.operand("input");
    if (input.rank() < 2) return bad_input("an input without channels is not supported");
    if (overwrites(call.node)) {
      return bad_input("it updates its running statistics in place; export with run_decompositions({}), which makes that functional");
    }
    const bool together = is_forward(call.node) && trains(call.node);
    // The forward's sums are its own; an evaluation sums nothing, though its empty statistics lack batch and channels.
    const bool none = call.results.back().elements() == 0;
    const std::string finish = together || none ? "^" : "", channel = none ? "^c" : "c";
    std::string whole = finish + "n " + channel;
    for (std::int64_t i = 2; i < input.rank(); ++i) whole += " " + finish + "x" + std::to_string(i - 2);
    std::string operands, results;
    const auto add = [&](std::string& text, const TensorType& type) {
      const bool empty = type.elements() == 0;  // an evaluation has no statistics of its own
      text += (text.empty() ? "" : ", ") + (type.rank() == input.rank() ? whole : (empty ? "!none" : channel));
    };
    for (const TensorType& type : call.operands) add(operands, type);
    for (const TensorType& type : call.results) add(results, type);
    Result<Rule> rule = parse_rule(operands + " -> " + results, call.operands, call.results);
    if (!rule) return rule;
    if (call.node.op == kBackwardSums) rule->linear = {{0}};
    if (!together) return rule;
    for (FactorId factor = 0; factor < rule->factors.size(); ++factor) {
      if (rule->factors[factor].name != "c" && rule->factors[factor].name != "none") rule->coupled.push_back(factor);
    }
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.fusion = Fusion::reduction;
    if (is_sharded_step(call.node)) {
      cost.forward.push_back({kFlops / 3 * static_cast<double>(call.operands[0].elements()), {}});
      return cost;
    }
    cost.forward.push_back({kFlops, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return batch_norm_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return batch_norm_evaluate(call, operands);
  }

  Status do_localize(const LocalCall& call) const override {
    if (!emit_sharded_steps(call)) call.emit(call.call.node.attributes);
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "batch_norm", "0.1.0", "Apache-2.0", "Normalization over the batch", kOps, nullptr, 0,
                  (create_plugin<OpFamily, BatchNorm>), destroy_plugin<OpFamily>)

}  // namespace meshwright
