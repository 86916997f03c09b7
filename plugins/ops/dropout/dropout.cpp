// Dropout: linear in its operand, since the mask does not depend on it. The mask is counter-based on the global element
// index (DESIGN §2), so every dimension shards.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "random_stream.h"

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

  // Where nothing is dropped and no mask is wanted, PyTorch returns the operand itself.
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.alias = cost.alias_backward = call.results.size() == 1 && drop_probability(call.node) == 0;
    if (!cost.alias) cost.forward.push_back({kFlops, rule.all_factors()});
    cost.fusion = Fusion::pointwise;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    if (call.node.results.size() == 1) {  // the same elements of the gradient are dropped
      Attributes attributes = call.node.attributes;
      attributes["random_stream"] = call.node.text("random_stream", call.node.name);
      return std::vector<ValueId>{call.build.emit(call.node.op, {{call.node.operands[0].name, call.result_gradients[0]}},
                                                  attributes, call.type(call.result_gradients[0]))};
    }
    // grad × mask × 1/(1-p): aten.native_dropout_backward, in two ops that have rules already.
    const TensorType& type = call.type(call.result_gradients[0]);
    const ValueId kept = call.build.emit("aten.mul.Tensor", {{"self", call.result_gradients[0]}, {"other", call.node.results[1]}}, {}, type);
    const double probability = drop_probability(call.node);
    if (probability == 0) return std::vector<ValueId>{kept};
    return std::vector<ValueId>{
        call.build.emit("aten.mul.Tensor", {{"self", kept}}, {{"other", 1 / (1 - probability)}}, type)};
  }

  // The mask goes by the global element, so that a sharded one is the serial one.
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const double probability = drop_probability(call.node);
    const double scale = probability < 1 ? 1 / (1 - probability) : 0;
    const ShardIndex elements(call.node, "elements", operands[0]->elements());
    const RandomStream random(call.node);
    std::vector<Tensor> results;
    for (const TensorType& type : call.results) results.emplace_back(type);
    for (std::int64_t i = 0; i < operands[0]->elements(); ++i) {
      const bool kept = probability == 0 || random.uniform(elements.global(i)) >= probability;
      results[0].set(i, kept ? operands[0]->get(i) * scale : 0);
      if (results.size() == 2) results[1].set(i, kept ? 1 : 0);
    }
    return results;
  }

  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes rank_attributes;
    const ShardedType& input = call.operands[0];
    ShardIndex::describe(input, 0, input.type.shape.size(), call.mesh, "elements", attributes, rank_attributes);
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }

  static double drop_probability(const Node& node) {
    return node.boolean("train", true) ? node.number("p", 0) : 0;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "dropout", "0.1.0", "Apache-2.0", "Dropout by the global element index", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Dropout>), destroy_plugin<OpFamily>)

}  // namespace meshwright
