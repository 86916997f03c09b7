// Coordinates of a grid: each operand along a dimension of its own, the same along the others.
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "term.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.meshgrid", "aten.meshgrid.indexing", nullptr};

// The grid's dimension that operand i is along; "xy" turns the first two round.
std::size_t dimension_of(const Node& node, std::size_t i) {
  const bool turned = node.text("indexing", "ij") == "xy" && node.operands.size() > 1;
  return turned && i < 2 ? 1 - i : i;
}

class Meshgrid final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::size_t rank = call.results[0].shape.size();
    if (rank != call.operands.size()) return bad_input("the grid has another rank than there are operands");
    const auto name = [&](std::size_t d) { return call.results[0].shape[d] == 1 ? std::string(" 1") : " d" + std::to_string(d); };
    std::string operands, grid, results;
    for (std::size_t i = 0; i < rank; ++i) {
      const bool scalar = call.operands[i].rank() == 0;
      operands += (i > 0 ? "," : "") + (scalar ? std::string() : name(dimension_of(call.node, i)));
      grid += name(i);
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) results += (i > 0 ? "," : "") + grid;
    return parse_rule(operands + " ->" + results, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!call.wanted[i] || call.result_gradients[i] == kNoId) continue;
      std::vector<std::int64_t> dims;
      for (std::size_t d = 0; d < gradients.size(); ++d) {
        if (d != dimension_of(call.node, i)) dims.push_back(static_cast<std::int64_t>(d));
      }
      gradients[i] = view(sum({call.build, call.result_gradients[i]}, dims), call.type(call.node.operands[i].value).shape).id();
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      Tensor& result = results.emplace_back(call.zeros(i));
      const std::size_t at = dimension_of(call.node, i);
      const std::int64_t size = result.shape()[at], stride = strides_of(result.shape())[at];
      if (operands[i]->elements() != size) return bad_input("the grid has another size than its operands");
      for (std::int64_t e = 0; e < result.elements(); ++e) result.set(e, operands[i]->get(e / stride % size));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "meshgrid", "0.1.0", "Apache-2.0", "Coordinates of a grid", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Meshgrid>), destroy_plugin<OpFamily>)

}  // namespace meshwright
