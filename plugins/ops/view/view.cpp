// Ops that only regroup, reorder or repeat the dimensions of one tensor. Written over atoms they move nothing: a
// flattening of b s is the product (b s), and a fused 768 read as 12 heads of 64 is (h d) -> h d.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"
#include "view.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze.dim",
                                "aten.squeeze.dims", "aten.transpose.int", "aten.permute", "aten.t", "aten.expand",
                                "aten.alias", "aten.detach", "aten.flatten.using_ints", "aten.unflatten.int", "aten.squeeze", nullptr};

class RuleBuilder {
 public:
  RuleBuilder() : operand_(rule_.operands.emplace_back()), result_(rule_.results.emplace_back()) {}

  FactorId add(std::int64_t size, bool whole, bool pads) {
    Factor factor;
    factor.name = "f" + std::to_string(rule_.factors.size());
    factor.size = size;
    factor.whole = whole;
    factor.pads = pads;
    rule_.factors.push_back(std::move(factor));
    return static_cast<FactorId>(rule_.factors.size() - 1);
  }
  std::vector<std::vector<FactorId>>& operand() { return operand_.dimensions; }
  std::vector<std::vector<FactorId>>& result() { return result_.dimensions; }

  Rule take() {
    rule_.linear = {{0}};
    return std::move(rule_);
  }

 private:
  Rule rule_;
  TensorRule& operand_;
  TensorRule& result_;
};

// The products of the innermost 1, 2, ... sizes.
std::vector<std::int64_t> suffix_products(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> products;
  std::int64_t product = 1;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) products.push_back(product *= *size);
  return products;
}

// One run of dimensions on each side that hold the same elements: [a0, a1, ...] read as [b0, b1, ...].
void add_group(RuleBuilder& builder, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  std::vector<std::int64_t> edges = suffix_products(from);
  for (const std::int64_t edge : suffix_products(to)) edges.push_back(edge);
  edges.push_back(1);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  bool chain = true;
  for (std::size_t i = 1; i < edges.size(); ++i) chain &= edges[i] % edges[i - 1] == 0;
  if (!chain) {  // 6·4 read as 8·3: no common factors, so both sides stay whole
    for (const std::int64_t size : from) builder.operand().push_back(size > 1 ? std::vector{builder.add(size, true, false)} : std::vector<FactorId>{});
    for (const std::int64_t size : to) builder.result().push_back(size > 1 ? std::vector{builder.add(size, true, false)} : std::vector<FactorId>{});
    return;
  }
  const bool pads = edges.size() == 2;  // one factor alone: padding it pads the dimension
  std::vector<FactorId> factors;        // major to minor; factor i spans edges [n-2-i, n-1-i]
  for (std::size_t i = edges.size() - 1; i > 0; --i) factors.push_back(builder.add(edges[i] / edges[i - 1], false, pads));
  const auto spread = [&](const std::vector<std::int64_t>& sizes, std::vector<std::vector<FactorId>>& dimensions) {
    auto factor = factors.begin();
    std::int64_t outer = edges.back();
    for (const std::int64_t size : sizes) {
      std::vector<FactorId>& dimension = dimensions.emplace_back();
      const std::int64_t inner = outer / size;
      for (; outer > inner; ++factor) {
        dimension.push_back(*factor);
        const auto edge = std::lower_bound(edges.begin(), edges.end(), outer);
        outer = *(edge - 1);
      }
    }
  };
  spread(from, builder.operand());
  spread(to, builder.result());
}

Rule reshape_rule(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  RuleBuilder builder;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    std::vector<std::int64_t> left, right;
    std::int64_t left_product = 1, right_product = 1;
    // Take dimensions from the side that is behind until both hold as many elements.
    do {
      const bool take_left = i < from.size() && (left_product <= right_product || j == to.size());
      if (take_left) left_product *= from[i], left.push_back(from[i++]);
      else right_product *= to[j], right.push_back(to[j++]);
    } while (left_product != right_product);
    add_group(builder, left, right);
  }
  return builder.take();
}

Rule permute_rule(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& order) {
  RuleBuilder builder;
  for (const std::int64_t size : shape) {
    builder.operand().push_back(size > 1 ? std::vector{builder.add(size, false, true)} : std::vector<FactorId>{});
  }
  for (const std::int64_t dimension : order) builder.result().push_back(builder.operand()[static_cast<std::size_t>(dimension)]);
  return builder.take();
}

Rule expand_rule(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  RuleBuilder builder;
  const std::size_t added = to.size() - from.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::vector<FactorId> factors = to[i] > 1 ? std::vector{builder.add(to[i], false, true)} : std::vector<FactorId>{};
    builder.result().push_back(factors);
    if (i >= added) builder.operand().push_back(from[i - added] == to[i] ? factors : std::vector<FactorId>{});
  }
  return builder.take();
}

class View final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::string& op = call.node.op;
    const std::vector<std::int64_t>& from = call.operands[0].shape;
    if (op == "aten.expand") return expand_rule(from, call.results[0].shape);
    if (is_permutation(op)) {
      Result<std::vector<std::int64_t>> order = permutation_of(call.node, call.operands[0].rank());
      if (!order) return order.error();
      return permute_rule(from, *order);
    }
    return reshape_rule(from, call.results[0].shape);
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = true;
    const std::string& op = call.node.op;
    cost.keeps_order = op != "aten.transpose.int" && op != "aten.permute" && op != "aten.t" && op != "aten.expand";
    cost.transposes = transposes(call.node, call.operands[0].rank());
    cost.alias_backward = call.node.op != "aten.expand";  // whose gradient is a sum
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return view_gradient(call); }

  // Sizes become local (MAP §6.1).
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    for (const char* key : {"size", "shape"}) {
      if (attributes.contains(key)) attributes[key] = local_type(call.results[0], call.mesh).shape;
    }
    call.emit(std::move(attributes));
    return Done{};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return view_evaluate(call, *operands[0]);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "view", "0.1.0", "Apache-2.0", "Views: regroup, reorder or repeat dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, View>), destroy_plugin<OpFamily>)

}  // namespace meshwright
