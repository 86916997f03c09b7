// Attention as one op: batch, heads and query positions shard; the softmax over keys keeps them whole.
#include "attention.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.scaled_dot_product_attention", "meshwright.attention_backward", nullptr};

class Attention final : public OpFamily {
 private:
  // q: b* h l d, k: b* h s d, v: b* h s e. Keys and values stay whole, since a softmax runs over them; the
  // contraction over d is inside that softmax. Grouped queries: h = g groups of r heads, keys and values have g.
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& query = *call.operand("query");
    const TensorType& key = *call.operand("key");
    if (Status status = check_shapes(query, key, *call.operand("value")); !status) return status.error();
    const auto heads = static_cast<std::size_t>(query.rank() - 3);
    const bool grouped = query.shape[heads] != key.shape[heads];
    std::string leading;
    for (std::size_t i = 0; i < heads; ++i) leading += "b" + std::to_string(i) + " ";
    const std::string of_keys = leading + (key.shape[heads] == 1 ? "1" : grouped ? "g" : "h");
    const std::string of_queries =
        leading + (grouped && key.shape[heads] > 1 ? "(g " + std::to_string(query.shape[heads] / key.shape[heads]) + ")" : "h");
    const std::string result = of_queries + " l !e";
    // One head of keys for all queries is broadcast.
    std::vector<std::string> inputs = {of_queries + " l !d", of_keys + " !s !d", of_keys + " !s !e"};
    if (const TensorType* mask = call.operand("attn_mask")) {
      Result<std::string> mask_text = broadcast_mask(*mask, query, key, grouped);
      if (!mask_text) return mask_text.error();
      inputs.push_back(*mask_text);
    }
    if (!is_backward(call.node)) return parse_rule(joined(inputs) + " -> " + result, call.operands, call.results);
    // The gradients of keys and values lack l, and a mask's what it is broadcast over: there they are partial.
    std::vector<std::string> gradients;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (gives_gradient(call.node, i)) gradients.push_back(inputs[i]);
    }
    const std::string text = result + ", " + result + ", " + joined(inputs) + " -> " + joined(gradients);
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (rule) rule->linear = {{0}};
    return rule;
  }

  static std::string joined(const std::vector<std::string>& texts) {
    std::string text;
    for (const std::string& one : texts) text += (text.empty() ? "" : ", ") + one;
    return text;
  }

  static Result<std::string> broadcast_mask(const TensorType& mask, const TensorType& query, const TensorType& key,
                                            bool grouped) {
    const std::int64_t missing = query.rank() - mask.rank();
    if (missing < 0) return bad_input("the attention mask has more dimensions than the queries");
    std::string text;
    for (std::int64_t i = 0; i < mask.rank(); ++i) {
      const std::int64_t at = missing + i;
      const std::int64_t size = mask.shape[static_cast<std::size_t>(i)];
      std::string name = "b" + std::to_string(at);
      if (at == query.rank() - 3) {
        name = grouped && key.shape[static_cast<std::size_t>(at)] > 1 ? "(g " +
                             std::to_string(query.shape[static_cast<std::size_t>(at)] /
                                            key.shape[static_cast<std::size_t>(at)]) +
                             ")"
                       : "h";
      }
      if (at == query.rank() - 2) name = "l";
      if (at == query.rank() - 1) name = "!s";
      text += (i > 0 ? " " : "") + (size == 1 ? std::string("1") : name);
    }
    return text;
  }

  // Q·Kᵀ over b h l s d, and the product with V over b h l s e; 5 FLOPs of softmax for each b h l s. The backward
  // repeats the first product and has two more with d (of queries and keys) and two with e (of values and scores).
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = true;
    cost.attention = {rule.factor("s"), rule.factor("d"), is_backward(call.node)};
    const FactorId d = rule.factor("d"), e = rule.factor("e"), l = rule.factor("l");
    std::vector<FactorId> scores;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      if (factor != d && factor != e) scores.push_back(factor);
    }
    const bool causal = call.node.boolean("is_causal", false), backward = is_backward(call.node);
    const auto add = [&](double flops, std::vector<FactorId> factors) {
      cost.forward.push_back({flops, std::move(factors), causal, l});
    };
    std::vector<FactorId> with_d = scores, with_e = scores;
    with_d.push_back(d);
    with_e.push_back(e);
    add(backward ? 6 : 2, std::move(with_d));
    add(backward ? 4 : 2, std::move(with_e));
    add(5, std::move(scores));
    return cost;
  }

  // One op, which computes the probabilities again from what PyTorch's fused kernels save: operands, mask and result.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}, {"output", call.node.results[0]}};
    operands.insert(operands.end(), call.node.operands.begin(), call.node.operands.end());
    std::vector<std::int64_t> mask(4, 0);  // query, key, value, attn_mask
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < call.wanted.size(); ++i) {  // the operands come in the schema's order
      mask[i] = call.wanted[i] ? 1 : 0;
      if (call.wanted[i]) types.push_back(call.type(call.node.operands[i].value));
    }
    Attributes attributes = call.node.attributes;
    attributes["output_mask"] = mask;
    attributes["random_stream"] = call.node.name;  // the same elements are dropped
    const std::vector<ValueId> made = call.build.emit("meshwright.attention_backward", operands, attributes, types);
    std::vector<ValueId> gradients(call.wanted.size(), kNoId);
    for (std::size_t i = 0, next = 0; i < gradients.size(); ++i) {
      if (call.wanted[i]) gradients[i] = made[next++];
    }
    return gradients;
  }

  FoundComposites do_find_composites(const Graph& graph) const override { return what_kernels_do(graph); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return attention_evaluate(call, operands);
  }

  // Sharded queries know where they stand, for the causal mask; dropout goes by the global element of the scores.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes rank_attributes;
    const ShardedType& query = *call.type("query");
    const auto rank = static_cast<std::size_t>(query.type.rank());
    if (call.call.node.boolean("is_causal", false)) {
      ShardIndex::describe(query, rank - 2, rank - 1, call.mesh, "queries", attributes, rank_attributes);
    }
    if (call.call.node.number("dropout_p", 0) != 0) {
      ShardIndex::describe(query, 0, rank - 1, call.mesh, "rows", attributes, rank_attributes);
    }
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "attention", "0.1.0", "Apache-2.0", "Scaled dot-product attention", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Attention>), destroy_plugin<OpFamily>)

}  // namespace meshwright
