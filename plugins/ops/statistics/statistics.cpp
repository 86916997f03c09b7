// The dimensions that are reduced stay whole, the others shard.
#include "statistics.h"

#include "dimensions.h"
#include "meshwright/plugin.h"

namespace meshwright {

std::vector<bool> reduced_dimensions(const Node& node, std::int64_t rank) {
  return named_or_all_dimensions(list_of(node, "dim"), rank);
}

std::vector<std::int64_t> kept_shape(const Node& node, const TensorType& operand) {
  return shape_with_ones(operand.shape, reduced_dimensions(node, operand.rank()));
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
                                "aten.linalg_vector_norm", "aten.linalg_norm", kProdBackward,   nullptr};

constexpr double kFlops = 4;  // for each element: a sum, a difference, a square or an exponential, and their sum

// With an order, linalg_norm of two dimensions is one of a matrix: of its singular values, or of sums of rows or columns.
Status check_norm(const Node& node, const TensorType& operand) {
  if (node.op != "aten.linalg_norm" || !node.attributes.contains("ord")) return Done{};
  const std::size_t named = list_of(node, "dim").size();
  if (named == 1 || (named == 0 && operand.rank() <= 1)) return Done{};
  return bad_input("the norm of a matrix by an order is not supported; that of a vector is, and without an order");
}

class Statistics final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (Status status = check_norm(call.node, call.operands[0]); !status) return status.error();
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
    cost.fusion = Fusion::reduction;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return statistics_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (Status status = check_norm(call.node, call.operands[0]); !status) return status.error();
    return statistics_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "statistics", "0.1.0", "Apache-2.0", "Variances, norms, log-sum-exp and products along dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Statistics>), destroy_plugin<OpFamily>)

}  // namespace meshwright
