// Interpolation of images. Batch and channels shard; space stays whole, since an output position reads its neighbours.
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "resample.h"

namespace meshwright {
namespace {

// meshwright.upsample_backward(grad_output) -> the gradient of self, of the size that the result's type has. Attributes are the
// forward's, and "mode": the forward's op.
constexpr const char* kBackward = "meshwright.upsample_backward";

constexpr const char* kOps[] = {
    "aten.upsample_nearest1d",     "aten.upsample_nearest1d.vec",     "aten.upsample_nearest2d",        "aten.upsample_nearest2d.vec",
    "aten.upsample_nearest3d",     "aten.upsample_nearest3d.vec",     "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact2d.vec",
    "aten.upsample_linear1d",      "aten.upsample_linear1d.vec",      "aten.upsample_bilinear2d",       "aten.upsample_bilinear2d.vec",
    "aten.upsample_trilinear3d",   "aten.upsample_trilinear3d.vec",   "aten.upsample_bicubic2d",        "aten.upsample_bicubic2d.vec",
    "aten._upsample_bilinear2d_aa", "aten._upsample_bilinear2d_aa.vec", "aten._upsample_bicubic2d_aa",   "aten._upsample_bicubic2d_aa.vec",
    kBackward,                     nullptr};

bool is_backward(const Node& node) { return node.op == kBackward; }

Mode mode_of_node(const Node& node) { return mode_of(is_backward(node) ? node.text("mode", "") : node.op); }

// By dimension of space, how much larger the call says that the output is; 0 where it says nothing. The overload vec has a
// list, the others a number for each dimension: "scales", or "scales_d", "scales_h", "scales_w".
std::vector<double> scales_of(const Node& node, std::size_t space) {
  std::vector<double> scales(space, 0);
  const auto list = node.attributes.find("scale_factors");
  if (list != node.attributes.end()) {
    if (const auto* reals = std::get_if<std::vector<double>>(&list->second)) return *reals;
    for (std::size_t d = 0; d < node.integers("scale_factors").size(); ++d) scales[d] = static_cast<double>(node.integers("scale_factors")[d]);
    return scales;
  }
  constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  for (std::size_t d = 0; d < space; ++d) scales[d] = node.number(space == 1 ? "scales" : kNames[3 - space + d], 0);
  return scales;
}

class Upsample final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::size_t rank = call.operands[0].shape.size(), space = mode_of_node(call.node).space;
    if (rank < space) return bad_input("its operand has fewer dimensions than are interpolated along");
    std::string before, after;
    for (std::size_t i = 0; i < rank; ++i) {
      const auto dimension = [&](const char* name, const TensorType& type) {
        const std::string number = std::to_string(i);
        return i + space < rank ? " d" + number : type.shape[i] == 1 ? " 1" : " !" + (name + number);
      };
      before += dimension("x", call.operands[0]);
      after += dimension("y", call.results[0]);
    }
    Result<Rule> rule = parse_rule(before + " ->" + after, call.operands, call.results);
    if (rule) rule->linear = {{0}};
    return rule;
  }

  // A product and a sum for each weight, along one dimension after the other.
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    const Mode mode = mode_of_node(call.node);
    constexpr double kWeights[] = {1, 1, 2, 4};  // by Interpolation
    const auto& wide = is_backward(call.node) ? rule.operands[0] : rule.results[0];
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 2 * kWeights[static_cast<std::size_t>(mode.interpolation)] * static_cast<double>(mode.space);
    for (const auto& dimension : wide.dimensions) term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    Attributes attributes = call.node.attributes;
    attributes["mode"] = call.node.op;
    return std::vector<ValueId>{call.build.emit(kBackward, {{"grad_output", call.result_gradients[0]}}, attributes,
                                                call.type(call.node.operands[0].value))};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Node& node = call.node;
    const bool backward = is_backward(node), align_corners = node.boolean("align_corners", false);
    const Mode mode = mode_of_node(node);
    const std::vector<double> scales = scales_of(node, mode.space);
    std::vector<std::int64_t> shape = call.operands[0].shape;
    if (scales.size() != mode.space) return bad_input("scale_factors has another length than there are dimensions of space");
    Numbers numbers = numbers_of(*operands[0]);
    for (std::size_t d = 0; d < mode.space; ++d) {
      const std::size_t at = shape.size() - mode.space + d;
      const std::int64_t size = call.results[0].shape[at], input = backward ? size : shape[at], output = backward ? shape[at] : size;
      numbers = resample(numbers, shape, at, size, taps(mode, align_corners, scales[d], input, output), backward);
    }
    if (shape != call.results[0].shape) return bad_input("the shapes of operand and result do not go together");
    std::vector<Tensor> results;
    results.push_back(written(call.result(0), numbers));
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "upsample", "0.1.0", "Apache-2.0", "Interpolation of images", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Upsample>), destroy_plugin<OpFamily>)

}  // namespace meshwright
