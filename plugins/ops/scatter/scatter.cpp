// Where positions count, the dimension stays whole; elsewhere a dimension shards if the tensors are equally long. Under a mask
// every element's place depends on all masks before it, so everything stays whole.
#include "scatter.h"

#include "meshwright/plugin.h"

namespace meshwright {

Result<ScatterReduction> scatter_reduction(const Node& node) {
  if (node.op != "aten.scatter_reduce.two") return ScatterReduction::overwrite;
  const std::string reduce = node.text("reduce", "");
  if (reduce == "sum") return ScatterReduction::sum;
  if (reduce == "mean") return ScatterReduction::mean;
  if (reduce == "prod") return ScatterReduction::product;
  if (reduce == "amax") return ScatterReduction::maximum;
  if (reduce == "amin") return ScatterReduction::minimum;
  return bad_input("a scatter that reduces by '" + reduce + "' is not supported; sum, mean, prod, amax and amin are");
}

namespace {

constexpr const char* kOps[] = {"aten.scatter.src", "aten.scatter.value", "aten.scatter_reduce.two", "aten.masked_scatter",
                                kMaskedBackward,    nullptr};

class Scatter final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (is_masked(call.node)) {
      Rule rule = replicated_rule(call.operands, call.results);
      if (call.node.op == kMaskedBackward) rule.linear = {{0}};
      else if (is_floating(call.results[0].dtype)) rule.linear = {{0, 2}};
      return rule;
    }
    const Result<ScatterReduction> reduction = scatter_reduction(call.node);
    if (!reduction) return reduction.error();
    const TensorType &self = call.operands[0], &index = call.operands[1];
    const TensorType* src = call.operand("src");
    if (self.rank() != index.rank() || self.rank() == 0) return bad_input("a scatter into or from a scalar is not supported");
    const std::size_t at = scatter_dimension(call.node, self.rank());
    std::string table, positions, added;
    for (std::size_t i = 0; i < self.shape.size(); ++i) {
      const std::string number = std::to_string(i);
      const auto whole = [&](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : " !" + (name + number); };
      const bool aligned = i != at && self.shape[i] == index.shape[i] && (!src || src->shape[i] == index.shape[i]);
      table += aligned ? " d" + number : whole("w", self.shape[i]);
      positions += aligned ? " d" + number : whole("k", index.shape[i]);
      if (src) added += aligned ? " d" + number : whole(src->shape[i] == index.shape[i] ? "k" : "s", src->shape[i]);
    }
    Result<Rule> rule = parse_rule(table + "," + positions + (src ? "," + added : "") + " ->" + table, call.operands, call.results);
    const bool sums = *reduction != ScatterReduction::product && *reduction != ScatterReduction::maximum &&
                      *reduction != ScatterReduction::minimum;
    if (!rule || !sums || !is_floating(self.dtype)) return rule;
    if (src) rule->linear = {{0, 2}};
    else if (call.node.number("value", 1) == 0) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({1, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return scatter_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return scatter_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "scatter", "0.1.0", "Apache-2.0", "Elements written at positions or under a mask", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Scatter>), destroy_plugin<OpFamily>)

}  // namespace meshwright
