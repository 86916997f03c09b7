// Batch and channels shard, and so do the places; the image stays whole, since a place may be anywhere in it.
#include "grid_sampler.h"

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.grid_sampler_2d", "aten.grid_sampler", kInputGradient, kGridGradient, nullptr};

constexpr double kFlops = 20;  // for each place and channel: four weights, which are computed again, and their products

class GridSampler final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const bool of_input = call.node.op == kInputGradient, of_grid = call.node.op == kGridGradient;
    const TensorType& image = of_input ? call.results[0] : call.operands[of_grid ? 1 : 0];
    if (image.rank() != 4) return bad_input("an image of shape [batch, channels, height, width] is supported, not " + to_string(image));
    if (call.node.integer("interpolation_mode", 0) > 1) return bad_input("bicubic sampling is not supported; bilinear and nearest are");
    const auto whole = [](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : std::string(" !") + name; };
    const std::string input = "n c" + whole("h", image.shape[2]) + whole("w", image.shape[3]), grid = "n p q !2", output = "n c p q";
    const std::string text = of_input  ? output + ", " + grid + " -> " + input
                             : of_grid ? output + ", " + input + ", " + grid + " -> " + grid
                                       : input + ", " + grid + " -> " + output;
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    if (!rule) return rule;
    rule->linear = {{0}};
    if (of_grid) rule->linear.push_back({1});
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = kFlops;
    for (const char* name : {"n", "c", "p", "q"}) term.factors.push_back(rule.factor(name));
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.node.op.starts_with("aten.")) return bad_input("its op family states no gradient");
    const ValueId gradient = call.result_gradients[0], input = call.operand("input"), grid = call.operand("grid");
    std::vector<ValueId> gradients(2, kNoId);
    if (call.wanted[0]) {
      gradients[0] = call.build.emit(kInputGradient, {{"grad_output", gradient}, {"grid", grid}}, call.node.attributes, call.type(input));
    }
    if (call.wanted[1]) {
      gradients[1] = call.build.emit(kGridGradient, {{"grad_output", gradient}, {"input", input}, {"grid", grid}}, call.node.attributes,
                                     call.type(grid));
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return grid_sampler_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "grid_sampler", "0.1.0", "Apache-2.0", "Images read at the places of a grid", kOps, nullptr, 0,
                  (create_plugin<OpFamily, GridSampler>), destroy_plugin<OpFamily>)

}  // namespace meshwright
