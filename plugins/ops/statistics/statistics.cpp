// The dimensions that are reduced stay whole, the others shard.
#include "statistics.h"

#include "meshwright/plugin.h"

namespace meshwright {

std::vector<bool> reduced_dimensions(const Node& node, std::int64_t rank) {
  std::vector<std::int64_t> dims = node.integers("dim");
  const auto single = node.attributes.find("dim");
  if (single != node.attributes.end() && std::holds_alternative<std::int64_t>(single->second)) dims = {node.integer("dim", 0)};
  std::vector<bool> reduced(static_cast<std::size_t>(rank), dims.empty());
  for (const std::int64_t dim : dims) {
    if (rank > 0) reduced[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = true;
  }
  return reduced;
}

std::vector<std::int64_t> kept_shape(const Node& node, const TensorType& operand) {
  const std::vector<bool> reduced = reduced_dimensions(node, operand.rank());
  std::vector<std::int64_t> shape = operand.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (reduced[i]) shape[i] = 1;
  }
  return shape;
}

double correction_of(const Node& node) {
  if (node.attributes.contains("unbiased")) return node.boolean("unbiased", true) ? 1 : 0;
  return node.number("correction", 1);
}

namespace {

constexpr const char* kOps[] = {"aten.var",          "aten.var.dim",        "aten.var.correction",
                                "aten.std",          "aten.std.dim",        "aten.std.correction",
                                "aten.var_mean",     "aten.var_mean.dim",   "aten.var_mean.correction",
                                "aten.std_mean",     "aten.std_mean.dim",   "aten.std_mean.correction",
                                "aten.logsumexp",    "aten.prod",           "aten.prod.dim_int",
                                "aten.linalg_vector_norm", kProdBackward,   nullptr};

constexpr double kFlops = 4;  // for each element: a sum, a difference, a square or an exponential, and their sum

class Statistics final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const bool backward = call.node.op == kProdBackward;
    const TensorType& self = call.operands[backward ? 1 : 0];
    const std::vector<bool> reduced = reduced_dimensions(call.node, self.rank());
    const bool keeps = call.node.boolean("keepdim", false);
    std::string from, to;
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      const std::string name = "d" + std::to_string(i);
      from += self.shape[i] == 1 ? " 1" : (reduced[i] ? " !" : " ") + name;
      if (!reduced[i]) to += self.shape[i] == 1 ? " 1" : " " + name;
      else if (keeps) to += " 1";
    }
    if (backward) {
      Result<Rule> rule = parse_rule(to + "," + from + " ->" + from, call.operands, call.results);
      if (rule) rule->linear = {{0}};
      return rule;
    }
    return parse_rule(from + " ->" + to + (call.results.size() > 1 ? "," + to : ""), call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({kFlops, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return statistics_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return statistics_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "statistics", "0.1.0", "Apache-2.0", "Variances, norms, log-sum-exp and products along dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Statistics>), destroy_plugin<OpFamily>)

}  // namespace meshwright
