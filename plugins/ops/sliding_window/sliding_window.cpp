// Windows that slide along one dimension, each a row of a new last dimension. They overlap, so that dimension stays whole.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.unfold", "aten.unfold_backward", nullptr};

bool is_backward(const Node& node) { return node.op == "aten.unfold_backward"; }

std::size_t dimension(const Node& node, std::int64_t rank) {
  const std::int64_t at = node.integer(is_backward(node) ? "dim" : "dimension", 0);
  return static_cast<std::size_t>(at < 0 ? at + rank : at);
}

class SlidingWindow final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType &whole = is_backward(call.node) ? call.results[0] : call.operands[0],
                     &windows = is_backward(call.node) ? call.operands[0] : call.results[0];
    if (whole.rank() == 0) return bad_input("a scalar has no dimension to slide along");
    const std::size_t at = dimension(call.node, whole.rank());
    const auto stays = [](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : std::string(" !") + name; };
    std::string one, many;
    for (std::size_t i = 0; i < whole.shape.size(); ++i) {
      one += i == at ? stays("w", whole.shape[i]) : " d" + std::to_string(i);
      many += i == at ? stays("v", windows.shape[i]) : " d" + std::to_string(i);
    }
    many += stays("k", windows.shape.back());
    Result<Rule> rule = parse_rule(is_backward(call.node) ? many + " ->" + one : one + " ->" + many, call.operands, call.results);
    if (rule && is_floating(whole.dtype)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = !is_backward(call.node);
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType type = call.type(call.node.operands[0].value);
    const Attributes attributes = {{"input_sizes", type.shape},
                                   {"dim", static_cast<std::int64_t>(dimension(call.node, type.rank()))},
                                   {"size", call.node.integer("size", 1)},
                                   {"step", call.node.integer("step", 1)}};
    return std::vector<ValueId>{call.build.emit("aten.unfold_backward", {{"grad_in", call.result_gradients[0]}}, attributes, type)};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const bool backward = is_backward(call.node);
    const TensorType &whole = backward ? call.results[0] : call.operands[0], &windows = backward ? call.operands[0] : call.results[0];
    if (whole.rank() == 0) return bad_input("a scalar has no dimension to slide along");
    const std::size_t at = dimension(call.node, whole.rank());
    const std::int64_t length = windows.shape.back(), count = windows.shape[at], step = call.node.integer("step", 1);
    if (step < 1 || (count - 1) * step + length > whole.shape[at]) return bad_input("the windows reach over the end of their dimension");
    std::int64_t inner = 1;
    for (std::size_t d = at + 1; d < whole.shape.size(); ++d) inner *= whole.shape[d];
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < windows.elements(); ++i) {
      const std::int64_t within = i % length, k = i / length % inner, window = i / length / inner % count, o = i / length / inner / count;
      const std::int64_t from = (o * whole.shape[at] + window * step + within) * inner + k;
      if (backward) result.set(from, result.get(from) + operands[0]->get(i));
      else result.set(i, operands[0]->get(from));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "sliding_window", "0.1.0", "Apache-2.0", "Windows that slide along a dimension", kOps, nullptr, 0,
                  (create_plugin<OpFamily, SlidingWindow>), destroy_plugin<OpFamily>)

}  // namespace meshwright
