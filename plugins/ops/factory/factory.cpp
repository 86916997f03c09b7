// Tensors made from nothing but a shape.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.arange", "aten.arange.start", "aten.arange.start_step", "aten.new_ones",
                                "aten.new_zeros", "aten.new_full", "aten.ones", "aten.zeros", "aten.full",
                                "aten.ones_like", "aten.zeros_like", "aten.full_like", "aten.scalar_tensor", nullptr};

class Factory final : public OpFamily {
 private:
  // Every dimension shards: each rank makes its own part (arange from its own offset). The operand of new_ones and its
  // like gives only a dtype and, to the *_like ones, a shape.
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string result, operand;
    const bool like = call.node.op.ends_with("_like");
    for (std::size_t i = 0; i < call.results[0].shape.size(); ++i) result += " d" + std::to_string(i);
    if (!call.operands.empty()) {
      for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
        operand += (like ? " d" : " !w") + std::to_string(i);
      }
    }
    return parse_rule(operand + " -> " + result, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "factory", "0.1.0", "Apache-2.0", "Tensors made from nothing", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Factory>), destroy_plugin<OpFamily>)

}  // namespace meshwright
