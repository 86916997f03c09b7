// Pooling: batch and channels shard, space stays whole, since windows reach over the cuts.
#include "pooling.h"

#include <algorithm>

#include "meshwright/plugin.h"

namespace meshwright {

std::size_t pooled_dimensions(const Node& node) {
  const std::size_t at = node.op.find("pool");
  const char digit = is_backward(node) || at + 4 >= node.op.size() ? '0' : node.op[at + 4];
  return digit > '0' && digit < '4' ? static_cast<std::size_t>(digit - '0') : static_cast<std::size_t>(node.integer("space", 2));
}

namespace {

constexpr const char* kOps[] = {"aten.max_pool1d",
                                "aten.max_pool2d",
                                "aten.max_pool3d",
                                "aten.max_pool1d_with_indices",
                                "aten.max_pool2d_with_indices",
                                "aten.max_pool3d_with_indices",
                                "aten.avg_pool1d",
                                "aten.avg_pool2d",
                                "aten.avg_pool3d",
                                "aten.adaptive_max_pool1d",
                                "aten.adaptive_max_pool2d",
                                "aten.adaptive_max_pool3d",
                                "aten.adaptive_avg_pool1d",
                                "aten.adaptive_avg_pool2d",
                                "aten.adaptive_avg_pool3d",
                                "aten._adaptive_avg_pool2d",
                                "aten._adaptive_avg_pool3d",
                                kMaxBackward,
                                kAvgBackward,
                                "aten.avg_pool2d_backward",
                                "aten._adaptive_avg_pool2d_backward",
                                "aten.max_pool2d_with_indices_backward",
                                nullptr};

class Pooling final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& wide = is_backward(call.node) ? call.results[0] : call.operands[0];
    const std::size_t rank = wide.shape.size(), pooled = pooled_dimensions(call.node);
    if (rank < pooled) return bad_input("its operand has fewer dimensions than are pooled");
    const std::vector<std::int64_t>& narrow = is_backward(call.node) ? call.operands[0].shape : call.results[0].shape;
    std::string before, after;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::string number = std::to_string(i);
      // A single position has no name that could be cut.
      const auto whole = [&](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : " !" + (name + number); };
      before += i < rank - pooled ? " d" + number : whole("x", wide.shape[i]);
      after += i < rank - pooled ? " d" + number : whole("y", narrow[i]);
    }
    std::string text = before + " -> " + after;
    if (call.results.size() == 2) text += ", " + after;  // the indices
    if (is_backward(call.node)) {
      constexpr std::size_t kMost = 3;  // the gradient, the operand, the indices
      const std::string tensors[kMost] = {after, ", " + before, ", " + after};
      text.clear();
      for (std::size_t i = 0; i < call.operands.size() && i < kMost; ++i) text += tensors[i];
      text += " -> " + before;
    }
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (rule && (is_backward(call.node) || !is_maximum(call.node))) rule->linear = {{0}};
    return rule;
  }

  // A comparison or an addition for each element of each window.
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    double window = 1;
    if (!is_adaptive(call.node)) {
      const std::vector<std::int64_t> sizes = call.node.integers("kernel_size");
      for (std::size_t d = 0; d < pooled_dimensions(call.node); ++d) {
        window *= sizes.empty() ? 1.0 : static_cast<double>(d < sizes.size() ? sizes[d] : sizes[0]);
      }
    }
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = window;
    const bool inputs = is_adaptive(call.node);  // whose windows cover the input once
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      const char first = rule.factors[factor].name[0];
      if (first == 'd' || first == (inputs ? 'x' : 'y')) term.factors.push_back(factor);
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (!call.wanted[0] || call.result_gradients[0] == kNoId) return std::vector<ValueId>{kNoId};
    Attributes attributes = call.node.attributes;
    attributes["space"] = static_cast<std::int64_t>(pooled_dimensions(call.node));
    if (is_adaptive(call.node)) attributes["adaptive"] = true;
    std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}};
    if (is_maximum(call.node) || mean_saves_operand(call)) operands.push_back({"self", call.node.operands[0].value});
    if (call.node.results.size() == 2) operands.push_back({"indices", call.node.results[1]});
    return std::vector<ValueId>{call.build.emit(is_maximum(call.node) ? kMaxBackward : kAvgBackward, operands, attributes,
                                                call.type(call.node.operands[0].value))};
  }

  // PyTorch's formulas keep the operand, though only its shape matters; a mean of everything is a sum instead.
  static bool mean_saves_operand(const GradientCall& call) {
    const TensorType type = call.type(call.node.results[0]);
    const auto space = static_cast<std::ptrdiff_t>(pooled_dimensions(call.node));
    return !is_adaptive(call.node) || std::any_of(type.shape.end() - space, type.shape.end(), [](std::int64_t size) { return size != 1; });
  }

  // A maximum whose gradient is wanted also tells where it was, as in PyTorch.
  FoundComposites do_find_composites(const Graph& graph) const override {
    FoundComposites found;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const Node& node = graph.nodes[id];
      const bool alone = node.op == "aten.max_pool1d" || node.op == "aten.max_pool2d" || node.op == "aten.max_pool3d";
      if (!alone || node.results.size() != 1 || !graph.values[node.results[0]].requires_gradient) continue;
      Composite composite{node, id, {}, {}};
      composite.node.op += "_with_indices";
      composite.node.results.push_back(kNewValue);
      composite.values.push_back({node.name + "_indices", {DType::int64, graph.type(node.results[0]).shape}, kNoId, false});
      found.composites.push_back(std::move(composite));
    }
    return found;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return pooling_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "pooling", "0.1.0", "Apache-2.0", "Maxima and means of windows", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Pooling>), destroy_plugin<OpFamily>)

}  // namespace meshwright
