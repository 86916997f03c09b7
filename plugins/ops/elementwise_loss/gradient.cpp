// PyTorch's formulas (derivatives.yaml, Loss.cpp): a slope for each element, times the weight and the loss' gradient.
#include "elementwise_loss.h"

namespace meshwright {

namespace {

class Slopes {
 public:
  explicit Slopes(const GradientCall& call) : call_(call), x_(operand("self")), t_(operand("target")) {}

  [[nodiscard]] Term of_prediction() const {
    const Node& node = call_.node;
    if (is("aten.mse_loss")) return (x_ - t_) * 2;
    if (is("aten.l1_loss")) return sign(x_ - t_);
    if (is("aten.smooth_l1_loss")) {
      const double beta = node.number("beta", 1);
      return beta == 0 ? sign(x_ - t_) : within((x_ - t_) / beta, 1);
    }
    if (is("aten.huber_loss")) return within(x_ - t_, node.number("delta", 1));
    if (is("aten.binary_cross_entropy")) {
      const Term spread = (x_ * (1 - x_)).then("aten.clamp_min", {{"min", 1e-12}});
      return (x_ - t_) / spread;
    }
    if (is("aten.binary_cross_entropy_with_logits")) {
      if (!has("pos_weight")) return sigmoid(x_) - t_;
      const Term positive = operand("pos_weight") * t_;
      return sigmoid(x_) * (positive + (1 - t_)) - positive;
    }
    if (is("aten.soft_margin_loss")) return -t_ * sigmoid(-t_ * x_);
    return node.boolean("log_target", false) ? -exp(t_) : -t_;
  }

  [[nodiscard]] Term of_target() const {
    if (is("aten.binary_cross_entropy")) return log(1 - x_) - log(x_);
    if (is("aten.binary_cross_entropy_with_logits")) {
      if (!has("pos_weight")) return -x_;
      return (-x_).then("aten.log_sigmoid") - operand("pos_weight") * x_.then("aten.log_sigmoid");
    }
    if (!is("aten.kl_div")) return -of_prediction();  // functions of their difference
    if (call_.node.boolean("log_target", false)) return exp(t_) * (t_ - x_ + 1);
    return log(t_) + 1 - x_;
  }

 private:
  [[nodiscard]] bool is(std::string_view op) const { return call_.node.op == op; }
  [[nodiscard]] bool has(std::string_view name) const { return call_.operand(name) != kNoId; }
  [[nodiscard]] Term operand(std::string_view name) const { return {call_.build, call_.operand(name)}; }
  static Term within(Term a, double bound) { return a.then("aten.clamp", {{"min", -bound}, {"max", bound}}); }

  const GradientCall& call_;
  const Term x_, t_;
};

}  // namespace

Result<std::vector<ValueId>> elementwise_loss_gradient(const GradientCall& call) {
  const Node& node = call.node;
  std::vector<TensorType> types;
  for (const Operand& operand : node.operands) types.push_back(call.type(operand.value));
  const TensorType joint = joint_type(types);
  Term gradient(call.build, call.result_gradients[0]);
  if (reduction_of(node) == LossReduction::mean) gradient = gradient / static_cast<double>(joint.elements());
  const Slopes slopes(call);
  std::vector<ValueId> gradients(node.operands.size(), kNoId);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!call.wanted[i]) continue;
    if (i > 1 || (i == 1 && node.op == "aten.soft_margin_loss")) return bad_input("its op family states no gradient of '" + node.operands[i].name + "'");
    Term here = i == 0 ? slopes.of_prediction() : slopes.of_target();
    if (call.operand("weight") != kNoId) here = here * Term(call.build, call.operand("weight"));
    here = here * gradient;
    gradients[i] = sum_to(expand(here, joint.shape), types[i]).id();
  }
  return gradients;
}

}  // namespace meshwright
