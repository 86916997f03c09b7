// The lower or upper triangle of matrices. Every dimension shards: a rank knows which rows and columns it has.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.tril", "aten.triu", nullptr};

class Triangle final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.operands[0].rank() < 2) return bad_input("its operand is no matrix");
    std::string text;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
      text += call.operands[0].shape[i] == 1 ? " 1" : " d" + std::to_string(i);
    }
    Result<Rule> rule = parse_rule(text + " ->" + text, call.operands, call.results);
    if (rule && is_floating(call.results[0].dtype)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({1, rule.all_factors()});
    cost.fusion = Fusion::pointwise;
    return cost;
  }

  // The same triangle of the gradient.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const ValueId gradient = call.result_gradients[0];
    return std::vector<ValueId>{call.build.emit(call.node.op, {{"self", gradient}}, call.node.attributes, call.type(gradient))};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const std::vector<std::int64_t>& shape = call.results[0].shape;
    const std::int64_t rows = shape[shape.size() - 2], columns = shape.back(), diagonal = call.node.integer("diagonal", 0);
    const ShardIndex row(call.node, "rows", rows), column(call.node, "columns", columns);
    const bool lower = call.node.op == "aten.tril";
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      const std::int64_t distance = column.global(i % columns) - row.global(i / columns % rows);
      if (lower ? distance <= diagonal : distance >= diagonal) result.set(i, operands[0]->get(i));
    }
    return results;
  }

  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes starts;
    const std::size_t rank = call.results[0].type.shape.size();
    ShardIndex::describe(call.results[0], rank - 2, rank - 1, call.mesh, "rows", attributes, starts);
    ShardIndex::describe(call.results[0], rank - 1, rank, call.mesh, "columns", attributes, starts);
    call.emit(std::move(attributes), std::move(starts));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "triangle", "0.1.0", "Apache-2.0", "Lower and upper triangles", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Triangle>), destroy_plugin<OpFamily>)

}  // namespace meshwright
