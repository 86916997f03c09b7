// Matrix products. Each is one contraction: two FLOPs for each point of the space of all its factors.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.linear", "aten.addmm", "aten.mm", "aten.bmm", "aten.matmul", nullptr};

// The text of a bias that is added to m n: it may lack leading dimensions or have some of size 1.
std::string addend_text(const TensorType& bias, const std::vector<std::string>& dimensions) {
  std::string text = "+";
  const std::size_t skipped = dimensions.size() - bias.shape.size();
  for (std::size_t i = 0; i < bias.shape.size(); ++i) {
    text += (i > 0 ? " " : "") + (bias.shape[i] == 1 ? std::string("1") : dimensions[skipped + i]);
  }
  return text;
}

// matmul broadcasts its leading dimensions; a vector on either side has no row or no column.
Result<std::string> matmul_text(const OpCall& call) {
  const TensorType& a = call.operands[0];
  const TensorType& b = call.operands[1];
  if (a.rank() < 2 || b.rank() < 2) return bad_input("a product with a vector is not supported");
  const auto leading = [&](const TensorType& type) {
    std::string text;
    const std::int64_t missing = call.results[0].rank() - type.rank();
    for (std::int64_t i = 0; i + 2 < type.rank(); ++i) {
      const bool broadcast = type.shape[static_cast<std::size_t>(i)] == 1;
      text += broadcast ? "1 " : "b" + std::to_string(missing + i) + " ";
    }
    return text;
  };
  return leading(a) + "m k, " + leading(b) + "k n -> " + leading(call.results[0]) + "m n";
}

class Matmul final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::string& op = call.node.op;
    std::string text;
    if (op == "aten.linear") {
      text = call.operand("bias") ? "b* k, ~n k, +~n -> b* ~n" : "b* k, ~n k -> b* ~n";
    } else if (op == "aten.addmm") {
      text = addend_text(*call.operand("self"), {"m", "n"}) + ", m k, k n -> m n";
    } else if (op == "aten.mm") {
      text = "m k, k n -> m n";
    } else if (op == "aten.bmm") {
      text = "b m k, b k n -> b m n";
    } else {
      Result<std::string> product = matmul_text(call);
      if (!product) return product.error();
      text = *product;
    }
    return parse_rule(text, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = true;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 2;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) term.factors.push_back(factor);
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "matmul", "0.1.0", "Apache-2.0", "Matrix products", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Matmul>), destroy_plugin<OpFamily>)

}  // namespace meshwright
