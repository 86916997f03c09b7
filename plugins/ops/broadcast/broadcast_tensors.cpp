// Tensors brought to one shape. PyTorch's losses begin with it.
#include "broadcast.h"
#include "broadcast_rule.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.broadcast_tensors", nullptr};

class Broadcast final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string operands, results;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      operands += (i > 0 ? ", " : "") + broadcast_dimensions(call.operands[i], call.results[i]);
      results += (i > 0 ? ", " : "") + broadcast_dimensions(call.results[i], call.results[i]);
    }
    return parse_rule(operands + " -> " + results, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!call.wanted[i] || call.result_gradients[i] == kNoId) continue;
      gradients[i] = sum_to(call.build, call.result_gradients[i], call.type(call.node.operands[i].value));
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      Tensor& result = results.emplace_back(call.zeros(i));
      const BroadcastIndex index(operands[i]->shape(), result.shape());
      for (std::int64_t e = 0; e < result.elements(); ++e) result.set(e, operands[i]->get(index(e)));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "broadcast", "0.1.0", "Apache-2.0", "Tensors brought to one shape", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Broadcast>), destroy_plugin<OpFamily>)

}  // namespace meshwright
