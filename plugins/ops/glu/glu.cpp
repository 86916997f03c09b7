// Gated linear units: one half of a dimension, times the sigmoid of the other. The halves shard alike.
#include <cmath>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.glu", "aten.glu_backward", nullptr};

bool is_backward(const Node& node) { return node.op == "aten.glu_backward"; }

std::size_t dimension(const Node& node, std::int64_t rank) {
  const std::int64_t at = node.integer("dim", -1);
  return static_cast<std::size_t>(at < 0 ? at + rank : at);
}

class Glu final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& self = *call.operand("self");
    const std::size_t at = dimension(call.node, self.rank());
    std::string both, half;
    for (std::size_t i = 0; i < self.shape.size(); ++i) {
      const std::string name = " d" + std::to_string(i);
      both += i == at ? " (!2" + name + ")" : name;
      half += name;
    }
    const bool backward = is_backward(call.node);
    Result<Rule> rule = parse_rule(backward ? half + "," + both + " ->" + both : both + " ->" + half, call.operands, call.results);
    if (rule && backward) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({3, rule.all_factors()});
    cost.fusion = Fusion::pointwise;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const ValueId self = call.node.operands[0].value;
    return std::vector<ValueId>{call.build.emit("aten.glu_backward", {{"grad_output", call.result_gradients[0]}, {"self", self}},
                                                {{"dim", call.node.integer("dim", -1)}}, call.type(self))};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const bool backward = is_backward(call.node);
    const Tensor& self = *operands[backward ? 1 : 0];
    const std::size_t at = dimension(call.node, self.type().rank());
    std::int64_t inner = 1;
    for (std::size_t d = at + 1; d < self.shape().size(); ++d) inner *= self.shape()[d];
    const std::int64_t half = self.shape()[at] / 2 * inner;
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < self.elements() / 2; ++i) {
      const std::int64_t value = i / half * 2 * half + i % half, gate = value + half;
      const double open = 1 / (1 + std::exp(-self.get(gate)));
      if (!backward) {
        result.set(i, self.get(value) * open);
        continue;
      }
      result.set(value, operands[0]->get(i) * open);
      result.set(gate, operands[0]->get(i) * self.get(value) * open * (1 - open));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "glu", "0.1.0", "Apache-2.0", "Gated linear units", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Glu>), destroy_plugin<OpFamily>)

}  // namespace meshwright
