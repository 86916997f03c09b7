// Examples shard, and so do groups; the channels of a group and space stay whole.
#include "group_norm.h"

#include "meshwright/local_call.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.group_norm", kInstance, kNative, kNativeBackward, kBackward, nullptr};

constexpr double kFlops = 8;  // for each element: a sum, a difference, a square and its sum, a scale, and the affine part

// Channels are groups times those of a group, which stay together.
std::string channel_text(std::int64_t channels, std::int64_t groups) {
  if (groups == channels) return "g";
  return groups == 1 ? "!c" : "(g !" + std::to_string(channels / groups) + ")";
}

Status check_groups(const OpCall& call) {
  const TensorType& input = *call.operand("input");
  if (input.rank() < 2) return bad_input("an input without channels is not supported");
  const std::int64_t channels = input.shape[1], groups = groups_of(call.node, channels);
  if (groups < 1 || channels % groups != 0) return bad_input("the channels must be a multiple of the groups");
  if (call.node.op == kInstance && (!call.node.boolean("use_input_stats", true) || call.operand("running_mean"))) {
    return bad_input("running statistics of an instance normalization are not supported");
  }
  return Done{};
}

class GroupNorm final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (Status status = check_groups(call); !status) return status.error();
    const TensorType& input = *call.operand("input");
    const std::int64_t channels = input.shape[1], groups = groups_of(call.node, channels);
    const std::string channel = channel_text(channels, groups), statistic = groups == 1 ? "n 1" : "n g";
    std::string whole = "n " + channel;
    for (std::int64_t i = 2; i < input.rank(); ++i) whole += " !x" + std::to_string(i - 2);
    std::string operands, results;
    const auto add = [](std::string& text, const std::string& tensor) { text += (text.empty() ? "" : ", ") + tensor; };
    for (const Operand& operand : call.node.operands) {
      const bool is_statistic = operand.name == "mean" || operand.name == "rstd";
      const bool affine = operand.name == "weight" || operand.name == "bias";
      add(operands, is_statistic ? statistic : affine ? channel : whole);
    }
    for (const TensorType& type : call.results) {
      const bool is_statistic = call.node.op == kNative && &type != call.results.data();
      add(results, is_statistic ? statistic : type.rank() == 1 ? channel : whole);
    }
    Result<Rule> rule = parse_rule(operands + " -> " + results, call.operands, call.results);
    if (rule && is_backward(call.node)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({is_backward(call.node) ? 2 * kFlops : kFlops, rule.all_factors()});
    cost.fusion = Fusion::reduction;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return group_norm_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (Status status = check_groups(call); !status) return status.error();
    return group_norm_evaluate(call, operands);
  }

  // A rank has its share of the groups.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    const ShardedType& input = *call.type("input");
    const TensorType local = local_type(input, call.mesh);
    const std::int64_t channels = input.type.shape[1];
    if (call.call.node.op != kInstance) {
      attributes[group_attribute(call.call.node)] = groups_of(call.call.node, channels) * local.shape[1] / channels;
    }
    if (attributes.contains("N")) attributes["N"] = local.shape[0];
    if (attributes.contains("C")) attributes["C"] = local.shape[1];
    call.emit(std::move(attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "group_norm", "0.1.0", "Apache-2.0", "Normalization over groups of channels", kOps, nullptr, 0,
                  (create_plugin<OpFamily, GroupNorm>), destroy_plugin<OpFamily>)

}  // namespace meshwright
