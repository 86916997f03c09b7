// Embeddings: the vocabulary is a reduction factor, and may be padded.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.embedding", "aten.embedding_dense_backward", nullptr};

class Embedding final : public OpFamily {
 private:
  // A look-up is a product with a one-hot matrix: a sharded vocabulary makes the result partial. Each rank looks up
  // the rows it has and puts zero for the others.
  Result<Rule> do_rule(const OpCall& call) const override {
    // The gradient gathers rows again: its positions are a reduction, its rows come from nowhere else.
    if (is_backward(call.node)) {
      Result<Rule> rule = parse_rule("i* d, i* -> ~v d", call.operands, call.results);
      if (rule) rule->linear = {{0}};
      return rule;
    }
    return parse_rule("~v d, i* -> i* d", call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override {
    OpCost cost;
    cost.gathers = true;
    return cost;
  }

  static bool is_backward(const Node& node) { return node.op == "aten.embedding_dense_backward"; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (call.node.boolean("scale_grad_by_freq", false)) return bad_input("a gradient over the frequency of each row is not supported");
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    if (!call.wanted[0]) return gradients;
    const TensorType& weight = call.type(call.operand("weight"));
    gradients[0] = call.build.emit(
        "aten.embedding_dense_backward", {{"grad_output", call.result_gradients[0]}, {"indices", call.operand("indices")}},
        {{"num_weights", weight.shape[0]}, {"padding_idx", call.node.integer("padding_idx", -1)}}, weight);
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    const Tensor& indices = *operands[1];
    const Tensor& rows = *operands[0];  // of the table, or of the gradient
    const bool backward = is_backward(call.node);
    const std::int64_t table_rows = backward ? result.shape()[0] : rows.shape()[0];
    const std::int64_t columns = rows.shape().back();
    const ShardIndex table(call.node, "rows", table_rows);
    for (std::int64_t i = 0; i < indices.elements(); ++i) {
      const auto index = static_cast<std::int64_t>(indices.get(i));
      if (index < 0 || index >= table.global_size()) {
        return bad_input("index " + std::to_string(index) + " is outside of the table's " +
                         std::to_string(table.global_size()) + " rows");
      }
      if (backward && index == call.node.integer("padding_idx", -1)) continue;  // a padding row is not trained
      const std::optional<std::int64_t> here = table.local(index);
      if (!here) continue;  // another rank's row: zero here
      const std::int64_t row = *here;
      for (std::int64_t c = 0; c < columns; ++c) {
        if (backward) result.set(row * columns + c, result.get(row * columns + c) + rows.get(i * columns + c));
        else result.set(i * columns + c, rows.get(row * columns + c));
      }
    }
    return results;
  }

  // A rank that has a part of the vocabulary knows which rows.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes rank_attributes;
    const ShardedType& table = is_backward(call.call.node) ? call.results[0] : call.operands[0];
    ShardIndex::describe(table, 0, 1, call.mesh, "rows", attributes, rank_attributes);
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "embedding", "0.1.0", "Apache-2.0", "Row look-ups in a table", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Embedding>), destroy_plugin<OpFamily>)

}  // namespace meshwright
