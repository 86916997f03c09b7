// Cross entropy over logits n c. Over sharded classes the op combines maxima and sums by itself (a local rewrite);
// over sharded positions the loss is a partial sum.
#include "loss.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cross_entropy_loss",
                                "meshwright.cross_entropy_backward",
                                "meshwright.cross_entropy_maximum",
                                "meshwright.cross_entropy_terms",
                                "meshwright.cross_entropy_count",
                                "meshwright.cross_entropy_combine",
                                "meshwright.cross_entropy_combine_backward",
                                nullptr};

constexpr double kFlops = 6;  // for each logit: maximum, difference, exponential, sum, and the gradient's two

class CrossEntropy final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (is_sharded_step(call.node)) return replicated_rule(call.operands, call.results);  // it is sharded already
    const bool backward = is_backward(call.node);
    if (!shards_classes(call)) return whole_classes_rule(call);
    const LossReduction reduction = reduction_of(call.node);
    const std::string loss = reduction == LossReduction::none ? "n" : "";
    std::string text = "n ^~c, n";
    if (call.operand("weight")) text += ", ^~c";  // a weight for each class
    text = backward ? loss + ", " + text + " -> n ~c" : text + " -> " + loss;
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (!rule) return rule;
    if (backward) rule->linear = {{0}};
    // Sharded classes: the maximum, then the sum of exponentials, the label's logit and its weight together. A mean is
    // sum / count, and shards may hold unequal counts of labels that are not ignored.
    rule->coupled = {rule->factor("c")};
    if (reduction == LossReduction::mean) rule->coupled.push_back(rule->factor("n"));
    return rule;
  }

  // Classes stand behind the batch, and positions of an image behind them.
  static Result<Rule> whole_classes_rule(const OpCall& call) {
    const bool backward = is_backward(call.node);
    const std::int64_t rank = call.operand("self")->rank();
    std::string space;
    for (std::int64_t i = 2; i < rank; ++i) space += " x" + std::to_string(i - 2);
    const std::string batch = rank > 1 ? "n" : "", positions = batch + space, logits = batch + " !c" + space;
    const LossReduction reduction = reduction_of(call.node);
    const std::string loss = reduction == LossReduction::none ? positions : "";
    std::string text = logits + ", " + (has_probabilities(call) ? logits : positions) + (call.operand("weight") ? ", !c" : "");
    text = backward ? loss + ", " + text + " -> " + logits : text + " -> " + loss;
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (!rule) return rule;
    if (backward) rule->linear = {{0}};
    if (reduction != LossReduction::mean || has_probabilities(call)) return rule;
    for (FactorId factor = 0; factor < rule->factors.size(); ++factor) {
      if (!rule->factors[factor].whole) rule->coupled.push_back(factor);  // the count
    }
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.fusion = Fusion::reduction;
    if (is_sharded_step(call.node)) {
      const double share = call.node.op == "meshwright.cross_entropy_maximum" ? 1 : 3;
      const TensorType* logits = call.operand("self");
      cost.forward.push_back({share * static_cast<double>((logits ? *logits : call.operands[0]).elements()), {}});
      return cost;
    }
    cost.forward.push_back({kFlops, rule.all_factors()});
    return cost;
  }

  // One op, which computes the probabilities again from the logits that are saved.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op != "aten.cross_entropy_loss") return bad_input("its op family states no gradient");
    const std::size_t target = *call.node.operand_index("target");
    if (call.wanted[target]) return bad_input("its op family states no gradient of probabilities");
    std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}};
    operands.insert(operands.end(), call.node.operands.begin(), call.node.operands.end());
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    if (!call.wanted[0]) return gradients;
    gradients[0] = call.build.emit("meshwright.cross_entropy_backward", operands, call.node.attributes,
                                   call.type(call.node.operands[0].value));
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return is_sharded_step(call.node) ? sharded_step(call, operands) : loss_evaluate(call, operands);
  }

  Status do_localize(const LocalCall& call) const override {
    const bool done = is_sharded_step(call.call.node)    ? false
                      : shards_classes(call.call) ? emit_sharded_steps(call)
                                                  : emit_sharded_mean(call);
    if (!done) call.emit(call.call.node.attributes);
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "loss", "0.1.0", "Apache-2.0", "Losses", kOps, nullptr, 0,
                  (create_plugin<OpFamily, CrossEntropy>), destroy_plugin<OpFamily>)

}  // namespace meshwright
