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
    cost.forward.push_back({kFlops, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.results.size() == 1) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    // grad × mask × 1/(1-p): aten.native_dropout_backward, in two ops that have rules already.
    const TensorType& type = call.type(call.result_gradients[0]);
    const ValueId kept = call.build.emit("aten.mul.Tensor", {{"self", call.result_gradients[0]}, {"other", call.node.results[1]}}, {}, type);
    const double probability = drop_probability(call.node);
    if (probability == 0) return std::vector<ValueId>{kept};
    return std::vector<ValueId>{
        call.build.emit("aten.mul.Tensor", {{"self", kept}}, {{"other", 1 / (1 - probability)}}, type)};
  }

  // Without a probability nothing is random; with one, the mask needs the run's seed, which no family has yet.
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (drop_probability(call.node) != 0) return bad_input("dropout above 0 needs the run's seed and is not computed yet");
    std::vector<Tensor> results = {*operands[0]};
    if (call.results.size() == 2) {
      Tensor& mask = results.emplace_back(call.results[1]);
      for (std::int64_t i = 0; i < mask.elements(); ++i) mask.set(i, 1);
    }
    return results;
  }

  static double drop_probability(const Node& node) {
    return node.boolean("train", true) ? node.number("p", 0) : 0;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "dropout", "0.1.0", "Apache-2.0", "Dropout by the global element index", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Dropout>), destroy_plugin<OpFamily>)

}  // namespace meshwright
