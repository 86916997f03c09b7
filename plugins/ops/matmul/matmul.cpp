// Matrix products. Each is one contraction: two FLOPs for each point of the space of all its factors.
#include "matmul.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.linear", "aten.addmm", "aten.mm", "aten.bmm", "aten.matmul", "aten.baddbmm", nullptr};

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
std::string matmul_text(const OpCall& call) {
  const TensorType& a = call.operands[0];
  const TensorType& b = call.operands[1];
  const std::string m = a.rank() > 1 ? "m " : "", n = b.rank() > 1 ? "n" : "";
  const std::int64_t batches = call.results[0].rank() - (a.rank() > 1 ? 1 : 0) - (b.rank() > 1 ? 1 : 0);
  const auto leading = [&](const TensorType& type, std::int64_t dimensions) {
    std::string text;
    const std::int64_t missing = batches - dimensions;
    for (std::int64_t i = 0; i < dimensions; ++i) {
      const bool broadcast = type.shape[static_cast<std::size_t>(i)] == 1;
      text += broadcast ? "1 " : "b" + std::to_string(missing + i) + " ";
    }
    return text;
  };
  return leading(a, a.rank() - 2) + m + "k, " + leading(b, b.rank() - 2) + "k " + n + " -> " +
         leading(call.results[0], batches) + m + n;
}

class Matmul final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::string& op = call.node.op;
    std::string text;
    if (op == "aten.linear") {
      if (call.operand("weight")->rank() != 2) return bad_input("a weight that is a vector is not supported");
      text = call.operand("bias") ? "b* k, ~n k, +~n -> b* ~n" : "b* k, ~n k -> b* ~n";
    } else if (op == "aten.addmm") {
      text = addend_text(*call.operand("self"), {"m", "n"}) + ", m k, k n -> m n";
    } else if (op == "aten.baddbmm") {
      text = addend_text(*call.operand("self"), {"b", "m", "n"}) + ", b m k, b k n -> b m n";
    } else if (op == "aten.mm") {
      text = "m k, k n -> m n";
    } else if (op == "aten.bmm") {
      text = "b m k, b k n -> b m n";
    } else {
      text = matmul_text(call);
    }
    return parse_rule(text, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = true;
    cost.forward.push_back({2, rule.all_factors()});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return matmul_gradient(call); }

  FoundComposites do_find_composites(const Graph& graph) const override { return copies_of_batches(graph); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return matmul_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "matmul", "0.1.0", "Apache-2.0", "Matrix products", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Matmul>), destroy_plugin<OpFamily>)

}  // namespace meshwright
