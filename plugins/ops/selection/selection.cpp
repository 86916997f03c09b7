// Largest and smallest elements, their positions, and their order along a dimension. What is compared along stays whole.
#include "selection.h"

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.argmax", "aten.argmin",  "aten.max.dim", "aten.min.dim", "aten.amax",
                                "aten.amin",   "aten.max",     "aten.min",     "aten.topk",    "aten.sort",
                                "aten.any",    "aten.any.dim", "aten.all",     "aten.all.dim", "aten.sort.stable",
                                "aten.any.dims", "aten.all.dims",
                                nullptr};

class Selection final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& self = call.operands[0];
    const std::vector<bool> compared = compared_dimensions(call.node, self.rank());
    const bool keeps = call.node.boolean("keepdim", false);
    std::string from, to;
    for (std::size_t i = 0; i < compared.size(); ++i) {
      const std::string name = "d" + std::to_string(i);
      if (!compared[i]) {
        from += " " + name;
        to += " " + name;
        continue;
      }
      from += self.shape[i] == 1 ? " 1" : " !w" + std::to_string(i);
      if (sorts(call.node)) to += call.results[0].shape[i] == 1 ? " 1" : " !v" + std::to_string(i);
      else if (keeps) to += " 1";
    }
    std::string results = to;
    for (std::size_t i = 1; i < call.results.size(); ++i) results += "," + to;
    return parse_rule(from + " ->" + results, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = sorts(call.node) ? 10 : 1;  // some passes over the numbers
    for (const auto& dimension : rule.operands[0].dimensions) {
      term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return selection_gradient(call); }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return selection_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "selection", "0.1.0", "Apache-2.0", "Largest and smallest elements, and their order", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Selection>), destroy_plugin<OpFamily>)

}  // namespace meshwright
