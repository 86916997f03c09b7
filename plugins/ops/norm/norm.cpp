// Normalizations: the dimensions whose statistics are taken stay whole, the others shard.
#include "norm.h"
#include "meshwright/plugin.h"
#include "normalization.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.layer_norm",
                                "aten.rms_norm",
                                kNativeLayerNorm,
                                kNativeLayerNormBackward,
                                "aten.softmax.int",
                                "aten._softmax",
                                "aten.log_softmax.int",
                                "aten._log_softmax",
                                "aten._softmax_backward_data",
                                "aten._log_softmax_backward_data",
                                "meshwright.layer_norm_backward",
                                "meshwright.rms_norm_backward",
                                nullptr};

// FLOPs for each element: a sum, a difference, a square and its sum, a scale, and the affine part.
constexpr double kNormFlops = 8;
constexpr double kSoftmaxFlops = 5;  // maximum, difference, exponential, sum, division

class Norm final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& input = call.operands[0];
    const auto [first_whole, last_whole] = normalized_dimensions(call.node, input.rank());
    std::string dimensions, normalized, statistics;
    for (std::int64_t i = 0; i < input.rank(); ++i) {
      const bool whole = i >= first_whole && i <= last_whole;
      const std::string here = (whole ? "!d" : "d") + std::to_string(i);
      dimensions += (i > 0 ? " " : "") + here;
      statistics += (i > 0 ? " " : "") + (whole ? std::string("1") : here);
      if (whole) normalized += (normalized.empty() ? "" : " ") + here;
    }
    // Weights and biases, and their gradients, have the normalized dimensions alone.
    const auto text = [&](const TensorType& type) { return type.rank() == input.rank() ? dimensions : normalized; };
    std::string operands, results;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const std::string& name = call.node.operands[i].name;
      operands += (i > 0 ? ", " : "") + (name == "mean" || name == "rstd" ? statistics : text(call.operands[i]));
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      results += (i > 0 ? ", " : "") + (i > 0 && call.node.op == kNativeLayerNorm ? statistics : text(call.results[i]));
    }
    Result<Rule> rule = parse_rule(operands + " -> " + results, call.operands, call.results);
    if (rule && is_backward(call.node)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.fusion = Fusion::reduction;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = is_softmax(call.node) ? kSoftmaxFlops : kNormFlops;
    if (is_backward(call.node) && !is_softmax(call.node)) term.flops *= 2;  // it normalizes again
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) term.factors.push_back(factor);
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (call.node.op == kNativeLayerNorm) return native_gradient(call);
    return is_softmax(call.node) ? softmax_gradient(call) : norm_gradient(call);
  }

  // PyTorch's formulas need the result, and not the operand.
  static std::vector<ValueId> softmax_gradient(const GradientCall& call) {
    const bool log = call.node.op.find("log") != std::string::npos;
    const TensorType& type = call.type(call.node.operands[0].value);
    if (!call.wanted[0]) return {kNoId};
    return {call.build.emit(log ? "aten._log_softmax_backward_data" : "aten._softmax_backward_data",
                            {{"grad_output", call.result_gradients[0]}, {"output", call.node.results[0]}},
                            {{"dim", call.node.integer("dim", -1)}}, type)};
  }

  // Where a model uses the statistics of native_layer_norm, which hardly any does.
  static Result<std::vector<ValueId>> native_gradient(const GradientCall& call) {
    std::vector<ValueId> gradients(call.wanted.size(), kNoId);
    if (call.result_gradients[0] != kNoId) gradients = norm_gradient(call);
    if (!call.wanted[0]) return gradients;
    const std::vector<ValueId>& results = call.node.results;
    const Term x(call.build, call.node.operands[0].value), mean(call.build, results[1]), rstd(call.build, results[2]);
    const double count = static_cast<double>(x.type().elements()) / static_cast<double>(mean.type().elements());
    const std::optional<Term> share = through_statistics(x, mean, rstd, call.result_gradients[1], call.result_gradients[2], count);
    if (share) gradients[0] = (gradients[0] == kNoId ? *share : Term(call.build, gradients[0]) + *share).id();
    return gradients;
  }

  // One op gives all gradients that are wanted. For aten.layer_norm it computes mean and deviation again from the input; PyTorch saves
  // these two numbers a row, which are results of its native_layer_norm and not of aten.layer_norm.
  static std::vector<ValueId> norm_gradient(const GradientCall& call) {
    const bool native = call.node.op == kNativeLayerNorm;
    std::vector<Operand> operands = {{native ? "grad_out" : "grad_output", call.result_gradients[0]}};
    std::vector<std::int64_t> mask(std::size(kNormOperands), 0);
    std::vector<TensorType> results;
    for (std::size_t i = 0; i < std::size(kNormOperands); ++i) {
      const auto index = call.node.operand_index(kNormOperands[i]);
      if (!index) continue;
      if (i < 2) operands.push_back(call.node.operands[*index]);  // no gradient depends on the bias
      if (i == 0 && native) {
        operands.push_back({"mean", call.node.results[1]});
        operands.push_back({"rstd", call.node.results[2]});
      }
      mask[i] = call.wanted[*index] ? 1 : 0;
      if (call.wanted[*index]) results.push_back(call.type(call.node.operands[*index].value));
    }
    Attributes attributes = call.node.attributes;
    attributes["output_mask"] = mask;
    const bool rms = call.node.op == "aten.rms_norm";
    const char* op = native ? kNativeLayerNormBackward : rms ? "meshwright.rms_norm_backward" : "meshwright.layer_norm_backward";
    const std::vector<ValueId> made = call.build.emit(op, operands, attributes, results);
    std::vector<ValueId> gradients(call.wanted.size(), kNoId);
    for (std::size_t i = 0, next = 0; i < gradients.size(); ++i) {
      if (call.wanted[i]) gradients[i] = made[next++];
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return norm_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "norm", "0.1.0", "Apache-2.0", "Normalizations over trailing dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Norm>), destroy_plugin<OpFamily>)

}  // namespace meshwright
