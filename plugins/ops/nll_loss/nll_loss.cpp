// Positions shard, and so do classes: the loss is linear in the log-probabilities, and each rank finds the labels that are
// among its classes. A mean is divided by the weights of all labels, which the ranks add up.
#include "nll_loss.h"

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.nll_loss_nd", "aten.nll_loss", "aten.nll_loss2d", kCount, kBackward, nullptr};

// "n x0 x1", and "n c x0 x1" with the classes.
std::string dimensions(std::int64_t target_rank, bool classes) {
  std::string text = target_rank > 0 ? "n" : "";
  if (classes) text += " c";
  for (std::int64_t i = 1; i < target_rank; ++i) text += " x" + std::to_string(i - 1);
  return text;
}

class NllLoss final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const bool backward = call.node.op == kBackward, counts = call.node.op == kCount;
    const LossReduction reduction = reduction_of(call.node);
    const std::int64_t rank = call.operand("target")->rank();
    const std::string positions = dimensions(rank, false), all = dimensions(rank, true);
    const std::string loss = reduction == LossReduction::none && !counts ? positions : "";
    std::string text = counts ? positions : (backward ? loss : all) + ", " + positions;
    if (call.operand("weight")) text += ", c";
    Result<Rule> rule = parse_rule(text + " -> " + (backward ? all : loss), call.operands, call.results);
    if (!rule || counts) return rule;
    rule->linear = {{0}};
    if (backward || reduction != LossReduction::mean) return rule;
    // The count of a mean.
    for (FactorId factor = 0; factor < rule->factors.size(); ++factor) {
      if (rule->factors[factor].name != "c" || call.operand("weight")) rule->coupled.push_back(factor);
    }
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.gathers = call.node.op != kBackward;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 2;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      if (rule.factors[factor].name != "c") term.factors.push_back(factor);
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.node.op.starts_with("aten.")) return bad_input("its op family states no gradient");
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    if (!call.wanted[0]) return gradients;
    const TensorType type = call.type(call.node.operands[0].value);
    std::vector<Operand> labels = {{"target", call.operand("target")}, {"weight", call.operand("weight")}};
    ValueId gradient = call.result_gradients[0];
    if (reduction_of(call.node) == LossReduction::mean) {
      const TensorType scalar{type.dtype, {}};
      const ValueId count = call.build.emit(kCount, labels, {{"ignore_index", call.node.integer("ignore_index", -100)}}, scalar);
      gradient = call.build.emit("aten.div.Tensor", {{"self", gradient}, {"other", count}}, {}, scalar);
    }
    labels.insert(labels.begin(), {"grad_output", gradient});
    gradients[0] = call.build.emit(kBackward, labels, call.node.attributes, type);
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return nll_evaluate(call, operands);
  }

  Status do_localize(const LocalCall& call) const override {
    nll_localize(call);
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "nll_loss", "0.1.0", "Apache-2.0", "Negative log-likelihood of labels", kOps, nullptr, 0,
                  (create_plugin<OpFamily, NllLoss>), destroy_plugin<OpFamily>)

}  // namespace meshwright
