// A model's own autograd functions that were seen to be element-wise, forward and backward (python/meshwright/pointwise.py):
// every dimension shards. What they compute only PyTorch knows; `verify` puts other element-wise numbers in their place.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kForward = "meshwright_function.pointwise";
// (grad.0, ..., the forward's operands) -> the gradients of those that are floating-point; with the attributes of the forward.
constexpr const char* kBackward = "meshwright_function.pointwise_backward";
constexpr const char* kOps[] = {kForward, kBackward, nullptr};

class Function final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.operands.empty() || call.results.empty()) return bad_input("an element-wise function has operands and results");
    const std::vector<std::int64_t>& shape = call.operands[0].shape;
    std::string one;
    for (std::size_t i = 0; i < shape.size(); ++i) one += shape[i] == 1 ? std::string(" 1") : " d" + std::to_string(i);
    const auto alike = [&](const TensorType& type) { return type.shape == shape; };
    if (!std::ranges::all_of(call.operands, alike) || !std::ranges::all_of(call.results, alike)) {
      return bad_input("an element-wise function's tensors have one shape");
    }
    const auto each = [&](std::size_t count) {
      std::string text = one;
      while (--count > 0) text += "," + one;
      return text;
    };
    return parse_rule(each(call.operands.size()) + " ->" + each(call.results.size()), call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({1, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op == kBackward) return bad_input("its op family states no gradient");
    std::vector<Operand> operands;
    for (std::size_t i = 0; i < call.result_gradients.size(); ++i) {
      if (call.result_gradients[i] != kNoId) operands.push_back({"grad." + std::to_string(i), call.result_gradients[i]});
    }
    operands.insert(operands.end(), call.node.operands.begin(), call.node.operands.end());
    std::vector<std::size_t> wanted;
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
      if (!call.wanted[i]) continue;
      wanted.push_back(i);
      types.push_back(call.type(call.node.operands[i].value));
    }
    const std::vector<ValueId> made = call.build.emit(kBackward, operands, call.node.attributes, types);
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    for (std::size_t i = 0; i < wanted.size(); ++i) gradients[wanted[i]] = made[i];
    return gradients;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "function", "0.1.0", "Apache-2.0", "A model's own element-wise autograd functions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Function>), destroy_plugin<OpFamily>)

}  // namespace meshwright
