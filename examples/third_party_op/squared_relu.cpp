// An op family for one op that Meshwright does not know: thirdparty.squared_relu(self) = max(self, 0)²  (So et al. 2021,
// "Primer", §3). All that it takes: a rule, a cost, a gradient, and what the op means.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace {

using namespace meshwright;

constexpr const char* kOps[] = {"thirdparty.squared_relu", nullptr};

class SquaredRelu final : public OpFamily {
  // Element by element: every dimension shards, "d0 d1 -> d0 d1". It is not linear, so partial sums do not pass.
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string dimensions;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) dimensions += " d" + std::to_string(i);
    return parse_rule(dimensions + " ->" + dimensions, call.operands, call.results);
  }

  // A comparison and a product for each element.
  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({2, rule.all_factors()});
    return cost;
  }

  // d/dx max(x, 0)² = 2 max(x, 0), in ops that have rules of their own. What they use, x, is what is saved.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const ValueId self = call.operand("self"), gradient = call.result_gradients[0];
    const TensorType type = call.type(self);
    const ValueId relu = call.build.emit("aten.relu", {{"self", self}}, {}, type);
    const ValueId slope = call.build.emit("aten.mul.Tensor", {{"self", relu}}, {{"other", 2.0}}, type);
    return std::vector{call.build.emit("aten.mul.Tensor", {{"self", gradient}, {"other", slope}}, {}, type)};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.results[0]);
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      const double positive = std::max(operands[0]->get(i), 0.0);
      result.set(i, positive * positive);
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "squared_relu", "1.0.0", "Apache-2.0", "max(x, 0) squared", kOps, nullptr, 0,
                  (meshwright::create_plugin<meshwright::OpFamily, SquaredRelu>),
                  meshwright::destroy_plugin<meshwright::OpFamily>)
