// Cross entropy over logits n c. Over sharded classes the op combines maxima and sums by itself (a local rewrite);
// over sharded positions the loss is a partial sum.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cross_entropy_loss", nullptr};

enum class Reduction : std::int64_t { none = 0, mean = 1, sum = 2 };

constexpr double kFlops = 6;  // for each logit: maximum, difference, exponential, sum, and the gradient's two

class CrossEntropy final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& logits = call.operands[0];
    if (is_floating(call.operands[1].dtype)) return bad_input("class probabilities as targets are not supported");
    if (logits.rank() != 2) return bad_input("logits of shape [positions, classes] are supported, not " + to_string(logits));
    const auto reduction = static_cast<Reduction>(call.node.integer("reduction", 1));
    std::string text = "n ^~c, n";
    for (std::size_t i = 2; i < call.operands.size(); ++i) text += ", ^~c";  // a weight for each class
    Result<Rule> rule = parse_rule(text + (reduction == Reduction::none ? " -> n" : " -> "), call.operands, call.results);
    if (!rule) return rule;
    const FactorId n = rule->factor("n"), c = rule->factor("c");
    // Sharded classes: the maximum, then the sum of exponentials and the label's logit together. The backward needs none.
    rule->internal.push_back({c, {n}, 4, false});
    rule->internal.push_back({c, {n}, 8, false});
    // A mean is sum / count, and shards may hold unequal counts of labels that are not ignored.
    if (reduction == Reduction::mean) rule->internal.push_back({n, {}, 8, false});
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({kFlops, {rule.factor("n"), rule.factor("c")}, false, 0});
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "loss", "0.1.0", "Apache-2.0", "Losses", kOps, nullptr, 0,
                  (create_plugin<OpFamily, CrossEntropy>), destroy_plugin<OpFamily>)

}  // namespace meshwright
