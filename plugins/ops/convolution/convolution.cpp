// Convolutions: batch, input channels (a reduction), output channels and groups shard. So do their gradients: of an
// input the output channels are the reduction, of a weight the batch.
#include "convolution.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"

namespace meshwright {

// As PyTorch's convolution_backward: the input's needs the weight, the weight's the input, the bias' neither.
Result<std::vector<ValueId>> convolution_gradient(const GradientCall& call) {
  std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
  const ValueId gradient = call.result_gradients[0], input = call.node.operands[0].value,
                weight = call.node.operands[1].value;
  // A transposed convolution reads its gradient where the other reads its input.
  const bool transposed = is_transposed(call.node);
  Attributes attributes = call.node.attributes;
  if (transposed) {
    attributes["transposed"] = false;
    attributes.erase("output_padding");
  }
  if (call.wanted[0]) {
    gradients[0] = call.build.emit(transposed ? "aten.convolution" : kInputGradient,
                                   {{transposed ? "input" : "grad_output", gradient}, {"weight", weight}}, attributes,
                                   TensorType(call.type(input)));
  }
  if (call.wanted[1]) {
    gradients[1] = call.build.emit(kWeightGradient, {{"grad_output", transposed ? input : gradient}, {"input", transposed ? gradient : input}},
                                   attributes, TensorType(call.type(weight)));
  }
  if (gradients.size() > 2 && call.wanted[2]) {
    std::vector<std::int64_t> dims = {0};  // and space
    for (std::int64_t i = 2; i < call.type(gradient).rank(); ++i) dims.push_back(i);
    gradients[2] = call.build.emit("aten.sum.dim_IntList", {{"self", gradient}}, {{"dim", dims}, {"keepdim", false}},
                                   TensorType(call.type(call.operand("bias"))));
  }
  return gradients;
}

namespace {

constexpr const char* kOps[] = {"aten.conv2d",      "aten.conv1d",  "aten.conv2d.padding", "aten.conv1d.padding",
                                "aten.convolution", "aten.conv3d",  "aten.conv3d.padding", "aten.conv_transpose1d",
                                "aten.conv_transpose2d.input", "aten.conv_transpose3d.input", kBackward,
                                kInputGradient,     kWeightGradient, nullptr};

// As the rule and the meaning take it.
Status check_batch(const OpCall& call) {
  const ConvolutionTypes types = convolution_types(call);
  if (types.input.rank() != types.weight.rank()) return bad_input("an input without a batch is not supported");
  return Done{};
}

class Convolution final : public OpFamily {
 private:
  // Space stays whole: sharding it needs an exchange of halos. With groups the channels are products g c.
  Result<Rule> do_rule(const OpCall& call) const override {
    if (Status status = check_batch(call); !status) return status.error();
    const ConvolutionTypes types = convolution_types(call);
    const std::int64_t groups = call.node.integer("groups", 1);
    const std::string group = groups > 1 ? std::to_string(groups) : "";
    std::string in, kernel, out;
    for (std::int64_t i = 0; i < types.input.rank() - 2; ++i) {
      in += " !x" + std::to_string(i);
      kernel += " !k" + std::to_string(i);
      out += " !y" + std::to_string(i);
    }
    const auto channels = [&](const std::string& name) {
      return group.empty() ? name : "(" + group + " " + name + ")";
    };
    const std::string input = "n " + channels("i") + in, weight = channels("o") + " i" + kernel;
    const std::string output = "n " + channels("o") + out;
    if (call.node.op == kInputGradient || call.node.op == kWeightGradient) {
      const bool of_input = call.node.op == kInputGradient;
      const std::string text = output + ", " + (of_input ? weight : input) + " -> " + (of_input ? input : weight);
      Result<Rule> rule = parse_rule(text, call.operands, call.results);
      if (rule) rule->linear = {{0}};
      return rule;
    }
    if (call.node.op == kBackward) return backward_rule(call, input, weight, output, channels("o"));
    if (is_transposed(call.node)) {
      const std::string bias = call.operand("bias") ? ", +" + channels("i") : "";
      return parse_rule(output + ", " + weight + bias + " -> " + input, call.operands, call.results);
    }
    const std::string bias = call.operand("bias") ? ", +" + channels("o") : "";
    return parse_rule(input + ", " + weight + bias + " -> " + output, call.operands, call.results);
  }

  // All gradients at once.
  static Result<Rule> backward_rule(const OpCall& call, const std::string& input, const std::string& weight,
                                    const std::string& output, const std::string& bias) {
    if (is_transposed(call.node)) return bad_input("the backward of a transposed convolution is not supported");
    const std::string* given[] = {&input, &weight, &bias};
    std::string text;
    for (std::size_t i = 0; i < std::size(given); ++i) {
      if (gives_gradient(call.node, i)) text += (text.empty() ? " " : ", ") + *given[i];
    }
    Result<Rule> rule = parse_rule(output + ", " + input + ", " + weight + " ->" + text, call.operands, call.results);
    if (rule) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = true;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = call.node.op == kBackward ? 4 : 2;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      if (rule.factors[factor].name[0] != 'x') term.factors.push_back(factor);  // outputs times kernel, not inputs
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op.find("_backward") != std::string::npos)
      return bad_input("second derivatives of convolutions are not stated");
    if (call.type(call.node.operands[0].value).rank() != call.type(call.node.operands[1].value).rank())
      return bad_input("an input without a batch is not supported");
    return convolution_gradient(call);
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (Status status = check_batch(call); !status) return status.error();
    return convolution_evaluate(call, operands);
  }

  // A rank that has some of the groups runs a convolution of that many.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    std::vector<TensorType> operands, results;
    for (const ShardedType& operand : call.operands) operands.push_back(local_type(operand, call.mesh));
    for (const ShardedType& result : call.results) results.push_back(local_type(result, call.mesh));
    const OpCall local{call.call.node, std::move(operands), std::move(results)};
    const ConvolutionTypes types = convolution_types(local);
    if (attributes.contains("groups")) attributes["groups"] = types.input.shape[1] / types.weight.shape[1];
    call.emit(std::move(attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "convolution", "0.1.0", "Apache-2.0", "Convolutions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Convolution>), destroy_plugin<OpFamily>)

}  // namespace meshwright
