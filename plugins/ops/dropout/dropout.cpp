// Dropout: linear in its operand, since the mask does not depend on it. The mask is counter-based on the global element
// index (DESIGN §2), so every dimension shards.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.native_dropout", "aten.dropout", nullptr};

constexpr double kFlops = 3;  // for each element: a random number, a comparison, a scale

class Dropout final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string dimensions;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) dimensions += " ~d" + std::to_string(i);
    std::string text = dimensions + " ->" + dimensions;
    if (call.results.size() == 2) text += "," + dimensions;  // the mask
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (rule && call.results.size() == 1) rule->linear = {{0}};  // a mask is no partial sum
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = kFlops;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) term.factors.push_back(factor);
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "dropout", "0.1.0", "Apache-2.0", "Dropout by the global element index", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Dropout>), destroy_plugin<OpFamily>)

}  // namespace meshwright
