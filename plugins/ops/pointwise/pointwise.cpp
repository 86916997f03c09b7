// Ops that treat every element alike, with broadcasting: one factor for each dimension of the result. Which of them
// are linear, and in what, is the only thing that has to be said.
#include <algorithm>
#include <string_view>

#include "broadcast_rule.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "pointwise.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.add.Scalar", "aten.sub.Scalar",
    "aten.mul.Scalar", "aten.div.Scalar", "aten.neg", "aten.clone", "aten._to_copy", "aten.pow.Tensor_Scalar",
    "aten.exp", "aten.log", "aten.sqrt", "aten.rsqrt", "aten.reciprocal", "aten.abs", "aten.sin", "aten.cos", "aten.erf",
    "aten.tanh", "aten.sigmoid", "aten.relu", "aten.gelu", "aten.silu", "aten.maximum", "aten.minimum", "aten.clamp",
    "aten.where.self", "aten.masked_fill.Scalar", "aten.eq.Tensor", "aten.ne.Tensor", "aten.lt.Tensor",
    "aten.le.Tensor", "aten.gt.Tensor", "aten.ge.Tensor", "aten.eq.Scalar", "aten.ne.Scalar", "aten.lt.Scalar",
    "aten.le.Scalar", "aten.gt.Scalar", "aten.ge.Scalar", "aten.__and__.Tensor", "aten.__or__.Tensor",
    "aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor", "aten.bitwise_not", "aten.logical_and", "aten.logical_or",
    "aten.logical_not", "aten.sign", "aten.tanh_backward", "aten.sigmoid_backward", "aten.threshold_backward",
    "aten.gelu_backward", "aten.silu_backward", "aten.min.other", "aten.max.other", "aten.where.ScalarSelf",
    "aten.where.ScalarOther", "aten.where.Scalar", "aten.fill.Scalar", "aten.fill.Tensor", "aten.copy", "aten.rsub.Scalar",
    "aten.rsub.Tensor", "aten.clamp_min", "aten.clamp_max", "aten.square", "aten.masked_fill.Tensor", "aten.logical_xor",
    "aten.bitwise_xor.Tensor", "aten.__xor__.Tensor", "aten.bitwise_and.Scalar", "aten.bitwise_or.Scalar",
    "aten.bitwise_xor.Scalar", "aten.__and__.Scalar", "aten.__or__.Scalar", "aten.__xor__.Scalar", "aten.exp2", "aten.expm1",
    "aten.log2", "aten.log10", "aten.log1p", "aten.tan", "aten.asin", "aten.acos", "aten.atan", "aten.sinh", "aten.cosh",
    "aten.asinh", "aten.acosh", "aten.atanh", "aten.atan2", "aten.erfc", "aten.floor", "aten.ceil", "aten.trunc",
    "aten.round", "aten.round.decimals", "aten.frac", "aten.sgn", "aten.isnan", "aten.isinf", "aten.isfinite",
    "aten.nan_to_num", "aten.floor_divide", "aten.floor_divide.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.fmod.Tensor",
    "aten.fmod.Scalar", "aten.remainder.Tensor", "aten.remainder.Scalar", "aten.pow.Scalar", "aten.pow.Tensor_Tensor",
    "aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor", "aten.addcmul", "aten.addcdiv",
    "aten.lerp.Scalar", "aten.lerp.Tensor", "aten.elu", "aten.selu", "aten.celu", "aten.elu_backward", "aten.hardtanh",
    "aten.relu6", "aten.hardtanh_backward", "aten.leaky_relu", "aten.leaky_relu_backward", "aten.prelu",
    "aten._prelu_kernel", "aten.softplus", "aten.softplus_backward", "aten.log_sigmoid", "aten.mish",
    "aten.logit", "aten.threshold", "aten.hypot", "aten.logaddexp", "aten.xlogy.Tensor", "aten.fmax", "aten.fmin",
    "aten.signbit", "aten.type_as", "aten.multiply.Tensor", "aten.multiply.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar",
    "aten.divide.Tensor", "aten.divide.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar", "aten.negative",
    "aten.absolute", "aten.clip", "aten.greater.Tensor", "aten.greater.Scalar", "aten.greater_equal.Tensor",
    "aten.greater_equal.Scalar", "aten.less.Tensor", "aten.less.Scalar", "aten.less_equal.Tensor", "aten.less_equal.Scalar",
    "aten.not_equal.Tensor", "aten.not_equal.Scalar",
    "aten.mish_backward", "aten.hardsigmoid", "aten.hardsigmoid_backward", "aten.hardswish", "aten.hardswish_backward",
    nullptr};

using Groups = std::vector<std::vector<std::uint32_t>>;

Groups linear_groups(const OpCall& call) {
  const std::string& op = call.node.op;
  const bool two = call.operands.size() == 2;
  if (!is_floating(call.results[0].dtype)) return {};
  // With a number in place of the second tensor, an addition is affine, and linear no more.
  if (is_one_of(op, {"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"})) return two ? Groups{{0, 1}} : Groups{};
  if (op == "aten.mul.Tensor") return two ? Groups{{0}, {1}} : Groups{{0}};
  if (is_one_of(op, {"aten.div.Tensor", "aten.mul.Scalar", "aten.div.Scalar", "aten.neg", "aten.clone"})) return {{0}};
  if (op == "aten.addcmul") return {{0, 1}, {0, 2}};
  if (op == "aten.addcdiv" || op == "aten.lerp.Scalar" || op == "aten.lerp.Tensor") return {{0, 1}};
  if (op.ends_with("_backward")) return {{0}};  // in the gradient that comes in
  if (op == "aten.where.self") return {{1, 2}};
  if (op == "aten.copy") return is_floating(call.operands[1].dtype) ? Groups{{1}} : Groups{};
  if (op == "aten.masked_fill.Scalar" && call.node.integer("value", 1) == 0) return {{0}};
  if ((op == "aten._to_copy" || op == "aten.type_as") && is_floating(call.operands[0].dtype)) return {{0}};
  return {};
}

// prelu's weight, one for all or one for each element of dimension 1.
Result<Rule> prelu_rule(const OpCall& call) {
  const TensorType &self = call.operands[0], &weight = call.operands[1];
  const std::string all = broadcast_dimensions(self, self);
  const std::string one = weight.rank() == 0 ? "" : weight.shape[0] == 1 ? "1" : self.rank() == 1 ? "~d0" : "~d1";
  return parse_rule(all + ", " + one + " -> " + all, call.operands, call.results);
}

// Of the second operand only the dtype is used.
Result<Rule> type_as_rule(const OpCall& call) {
  const std::string all = broadcast_dimensions(call.operands[0], call.operands[0]);
  std::string other;
  for (std::size_t i = 0; i < call.operands[1].shape.size(); ++i) other += " !w" + std::to_string(i);
  const bool alike = call.operands[0].shape == call.operands[1].shape;
  return parse_rule(all + ", " + (alike ? all : other) + " -> " + all, call.operands, call.results);
}

// Ops that PyTorch has under two names.
Node canonical(const Node& node) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"aten.multiply", "aten.mul"}, {"aten.subtract", "aten.sub"}, {"aten.divide", "aten.div"}, {"aten.true_divide", "aten.div"},
      {"aten.negative", "aten.neg"}, {"aten.absolute", "aten.abs"}, {"aten.clip", "aten.clamp"}, {"aten.greater", "aten.gt"},
      {"aten.greater_equal", "aten.ge"}, {"aten.less", "aten.lt"}, {"aten.less_equal", "aten.le"}, {"aten.not_equal", "aten.ne"}};
  Node made = node;
  const std::size_t dot = node.op.find('.', sizeof("aten.") - 1);
  const std::string name = node.op.substr(0, dot);
  for (const auto& [other, usual] : kNames) {
    if (name == other) made.op = std::string(usual) + (dot == std::string::npos ? "" : node.op.substr(dot));
  }
  return made;
}

class Pointwise final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    Result<Rule> rule = call.node.op == "aten.prelu"     ? prelu_rule(call)
                        : call.node.op == "aten.type_as" ? type_as_rule(call)
                                                         : broadcast_rule(call);
    const Node node = canonical(call.node);
    if (rule) rule->linear = linear_groups({node, call.operands, call.results});
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({1, rule.all_factors()});
    cost.fusion = Fusion::pointwise;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const Node node = canonical(call.node);
    return pointwise_gradient({node, call.result_gradients, call.wanted, call.build});
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Node node = canonical(call.node);
    return pointwise_evaluate({node, call.operands, call.results}, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "pointwise", "0.1.0", "Apache-2.0", "Ops that treat every element alike", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Pointwise>), destroy_plugin<OpFamily>)

}  // namespace meshwright
