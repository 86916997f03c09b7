// Scans: every result depends on its neighbours along one dimension, which stays whole.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cumsum", "aten.diff", nullptr};

class Scan final : public OpFamily {
 private:
  // The scanned dimension stays whole. diff has operands of other lengths: what stands before and after.
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::int64_t rank = call.operands[0].rank();
    const std::int64_t dim = call.node.integer("dim", -1);
    const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
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
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "scan", "0.1.0", "Apache-2.0", "Running sums and differences along a dimension", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Scan>), destroy_plugin<OpFamily>)

}  // namespace meshwright
