// Every dimension shards. What a sum is over is absent from the result, so a sharded loss is a partial sum; a mean divides
// each rank's sum by the global count.
#include "elementwise_loss.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "broadcast.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss",
                                "aten.binary_cross_entropy", "aten.binary_cross_entropy_with_logits", "aten.kl_div",
                                "aten.soft_margin_loss", nullptr};

constexpr double kFlops = 6;  // for each element: a difference, some functions of it, a scale, and the sum

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// Of one prediction and target; `positive` weighs the positive class.
using Loss = std::function<double(double x, double target, double positive)>;

Loss loss_of(const Node& node) {
  const std::string& op = node.op;
  if (op == "aten.mse_loss") return [](double x, double t, double) { return (x - t) * (x - t); };
  if (op == "aten.l1_loss") return [](double x, double t, double) { return std::abs(x - t); };
  if (op == "aten.smooth_l1_loss") {
    return [beta = node.number("beta", 1)](double x, double t, double) {
      const double distance = std::abs(x - t);
      return distance < beta ? 0.5 * distance * distance / beta : distance - 0.5 * beta;
    };
  }
  if (op == "aten.huber_loss") {
    return [delta = node.number("delta", 1)](double x, double t, double) {
      const double distance = std::abs(x - t);
      return distance <= delta ? 0.5 * distance * distance : delta * (distance - 0.5 * delta);
    };
  }
  if (op == "aten.binary_cross_entropy") {  // logarithms are at least -100, as in PyTorch
    return [](double x, double t, double) { return (t - 1) * std::max(std::log1p(-x), -100.0) - t * std::max(std::log(x), -100.0); };
  }
  if (op == "aten.binary_cross_entropy_with_logits") {
    return [](double x, double t, double positive) { return (1 - t) * x + (1 + (positive - 1) * t) * softplus(-x); };
  }
  if (op == "aten.soft_margin_loss") return [](double x, double t, double) { return softplus(-t * x); };
  if (node.boolean("log_target", false)) return [](double x, double t, double) { return std::exp(t) * (t - x); };
  return [](double x, double t, double) { return (t == 0 ? 0 : t * std::log(t)) - t * x; };
}

class ElementwiseLoss final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType joint = joint_type(call.operands);
    const auto dimensions = [&](const TensorType& type) {
      std::string text;
      const std::int64_t missing = joint.rank() - type.rank();
      for (std::int64_t i = 0; i < type.rank(); ++i) {
        text += type.shape[static_cast<std::size_t>(i)] == 1 ? " 1" : " d" + std::to_string(missing + i);
      }
      return text;
    };
    std::string text;
    for (const TensorType& type : call.operands) text += (text.empty() ? " " : ",") + dimensions(type);
    text += " ->";
    if (reduction_of(call.node) == LossReduction::none) text += dimensions(joint);
    return parse_rule(text, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({kFlops, rule.all_factors()});
    cost.fusion = reduction_of(call.node) == LossReduction::none ? Fusion::pointwise : Fusion::reduction;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return elementwise_loss_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const TensorType joint = joint_type(call.operands);
    std::vector<BroadcastIndex> index;
    for (const Tensor* operand : operands) index.emplace_back(operand->shape(), joint.shape);
    const auto weight = call.node.operand_index("weight"), positive = call.node.operand_index("pos_weight");
    const auto at = [&](std::optional<std::size_t> operand, std::int64_t i) {
      return operand ? operands[*operand]->get(index[*operand](i)) : 1;
    };
    const Loss loss = loss_of(call.node);
    const LossReduction reduction = reduction_of(call.node);
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    double sum = 0;
    for (std::int64_t i = 0; i < joint.elements(); ++i) {
      const double here = loss(at(0, i), at(1, i), at(positive, i)) * at(weight, i);
      if (reduction == LossReduction::none) result.set(i, here);
      sum += here;
    }
    if (reduction != LossReduction::none) {
      result.set(0, reduction == LossReduction::mean ? sum / static_cast<double>(joint.elements()) : sum);
    }
    return results;
  }

  Status do_localize(const LocalCall& call) const override {
    const Node& node = call.call.node;
    if (reduction_of(node) != LossReduction::mean || !call.results[0].layout.has_partial()) {
      call.emit(node.attributes);
      return Done{};
    }
    const ProgramValueId sum = call.build.make(call.results[0]);
    Attributes attributes = node.attributes;
    attributes["reduction"] = static_cast<std::int64_t>(LossReduction::sum);
    call.build.emit(node.op, node.operands, attributes, {}, {sum});
    const auto count = static_cast<double>(joint_type(call.call.operands).elements());
    call.build.emit("aten.div.Tensor", {{"self", sum}}, {{"other", count}}, {}, node.results);
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "elementwise_loss", "0.1.0", "Apache-2.0", "Losses that compare element by element", kOps, nullptr, 0,
                  (create_plugin<OpFamily, ElementwiseLoss>), destroy_plugin<OpFamily>)

}  // namespace meshwright
