// An op family for one op that Meshwright does not know: thirdparty.linear_bias(self, slope) = self - slope |q - k| of
// scores
// [.., q, k]  (ALiBi; Press et al. 2022, §3). What a rank computes depends on which queries and keys it has.
#include <cmath>

#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace {

using namespace meshwright;

constexpr const char* kOps[] = {"thirdparty.linear_bias", nullptr};

class LinearBias final : public OpFamily {
  // Every dimension shards. It is not linear, so partial sums do not pass.
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.operands[0].rank() < 2) return bad_input("scores have queries and keys");
    std::string dimensions;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) dimensions += " d" + std::to_string(i);
    return parse_rule(dimensions + " ->" + dimensions, call.operands, call.results);
  }

  // A distance, a product and a difference for each element.
  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({3, rule.all_factors()});
    return cost;
  }

  // That of the scores is the result's, and nothing is saved.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    return std::vector{call.result_gradients[0]};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.results[0]);
    const std::int64_t columns = result.shape().back(), rows = *(result.shape().end() - 2);
    const ShardIndex row(call.node, "rows", rows), column(call.node, "columns", columns);
    const double slope = call.node.number("slope", 0);
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      const std::int64_t q = row.global(i / columns % rows), k = column.global(i % columns);
      result.set(i, operands[0]->get(i) - slope * static_cast<double>(std::abs(q - k)));
    }
    return results;
  }

  // One rank computes the op on its shard, and is told where that lies.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes starts;
    const ShardedType& scores = call.operands[0];
    const auto rank = static_cast<std::size_t>(scores.type.rank());
    ShardIndex::describe(scores, rank - 2, rank - 1, call.mesh, "rows", attributes, starts);
    ShardIndex::describe(scores, rank - 1, rank, call.mesh, "columns", attributes, starts);
    call.emit(std::move(attributes), std::move(starts));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "linear_bias", "1.0.0", "Apache-2.0", "Attention with linear biases", kOps, nullptr, 0,
                  (meshwright::create_plugin<meshwright::OpFamily, LinearBias>),
                  meshwright::destroy_plugin<meshwright::OpFamily>)
