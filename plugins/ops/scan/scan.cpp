// Scans: every result depends on its neighbours along one dimension, which stays whole.
#include <algorithm>
#include <numeric>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cumsum", "aten.diff", "aten.flip", nullptr};

class Scan final : public OpFamily {
 private:
  // The scanned dimension stays whole. diff has operands of other lengths: what stands before and after.
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::int64_t rank = call.operands[0].rank();
    const std::size_t at = scanned_dimension(call.node, rank);
    const auto dimensions = [&](const TensorType& type, const std::string& scanned) {
      std::string text;
      for (std::size_t i = 0; i < type.shape.size(); ++i) {
        const std::string here = i == at ? "!" + scanned : "d" + std::to_string(i);
        text += (i > 0 ? " " : "") + (type.shape[i] == 1 ? std::string("1") : here);
      }
      return text;
    };
    std::string text;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      text += (i > 0 ? ", " : "") + dimensions(call.operands[i], "w" + std::to_string(i));
    }
    return parse_rule(text + " -> " + dimensions(call.results[0], "v"), call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 1;
    for (const auto& dimension : rule.results[0].dimensions) {
      term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    }
    return cost;
  }

  static std::size_t scanned_dimension(const Node& node, std::int64_t rank) {
    const std::vector<std::int64_t> dims = node.integers("dims");  // flip's, of which one is supported
    const std::int64_t dim = dims.empty() ? node.integer("dim", -1) : dims[0];
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  }

  // A sum of what comes later: flip, sum, flip (PyTorch's cumsum_backward).
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op != "aten.cumsum") return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType& type = call.type(call.node.operands[0].value);
    const auto dim = static_cast<std::int64_t>(scanned_dimension(call.node, type.rank()));
    const auto flip = [&](ValueId id) {
      return call.build.emit("aten.flip", {{"self", id}}, {{"dims", std::vector<std::int64_t>{dim}}}, type);
    };
    return std::vector<ValueId>{
        flip(call.build.emit("aten.cumsum", {{"self", flip(call.result_gradients[0])}}, {{"dim", dim}}, type))};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.results[0]);
    const Tensor& self = *operands[0];
    const std::size_t at = scanned_dimension(call.node, self.type().rank());
    if (call.node.integers("dims").size() > 1) return bad_input("flipping several dimensions is not supported");
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < self.shape().size(); ++d) (d < at ? outer : inner) *= d == at ? 1 : self.shape()[d];
    const auto column = [&](const Tensor& tensor, std::int64_t o, std::int64_t k, std::vector<double>& numbers) {
      const std::int64_t extent = tensor.shape()[at];
      for (std::int64_t i = 0; i < extent; ++i) numbers.push_back(tensor.get((o * extent + i) * inner + k));
    };
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t k = 0; k < inner; ++k) {
        std::vector<double> numbers;
        const auto prepend = call.node.operand_index("prepend"), append = call.node.operand_index("append");
        if (prepend) column(*operands[*prepend], o, k, numbers);
        column(self, o, k, numbers);
        if (append) column(*operands[*append], o, k, numbers);
        scan(call.node, numbers);
        const std::int64_t extent = result.shape()[at];
        for (std::int64_t i = 0; i < extent; ++i) result.set((o * extent + i) * inner + k, numbers[static_cast<std::size_t>(i)]);
      }
    }
    return results;
  }

  static void scan(const Node& node, std::vector<double>& numbers) {
    if (node.op == "aten.flip") std::reverse(numbers.begin(), numbers.end());
    if (node.op == "aten.cumsum") std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
    for (std::int64_t n = 0; node.op == "aten.diff" && n < node.integer("n", 1); ++n) {
      std::adjacent_difference(numbers.begin(), numbers.end(), numbers.begin());
      numbers.erase(numbers.begin());  // the first has no one before it
    }
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "scan", "0.1.0", "Apache-2.0", "Running sums and differences along a dimension", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Scan>), destroy_plugin<OpFamily>)

}  // namespace meshwright
