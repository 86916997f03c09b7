// Padding: a dimension that is padded stays whole, the others shard.
#include "border.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.constant_pad_nd",   "aten.pad",               "aten.reflection_pad1d", "aten.reflection_pad2d",
                                "aten.reflection_pad3d",  "aten.replication_pad1d", "aten.replication_pad2d",
                                "aten.replication_pad3d", kBackward,                nullptr};

class Pad final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const Result<Border> border = border_of(call.node);
    if (!border) return border.error();
    const std::vector<std::int64_t> widths = widths_of(call.node);
    const std::size_t rank = call.operands[0].shape.size();
    std::string before, after;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::string number = std::to_string(i);
      const auto whole = [&](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : " !" + (name + number); };
      const bool stays = widths_at(widths, rank, i) == std::pair<std::int64_t, std::int64_t>(0, 0);
      before += stays ? " d" + number : whole("w", call.operands[0].shape[i]);
      after += stays ? " d" + number : whole("v", call.results[0].shape[i]);
    }
    Result<Rule> rule = parse_rule(before + " ->" + after, call.operands, call.results);
    const bool zeros = *border != Border::constant || call.node.number("value", 0) == 0;
    if (rule && is_floating(call.results[0].dtype) && zeros) rule->linear = {{0}};
    return rule;
  }

  // No view even where it only cuts off: PyTorch copies the slice that it takes.
  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op == kBackward) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType type = call.type(call.node.operands[0].value);
    const std::vector<std::int64_t> widths = widths_of(call.node);
    const Result<Border> border = border_of(call.node);
    if (!border) return border.error();
    constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
    return std::vector<ValueId>{call.build.emit(kBackward, {{"grad_output", call.result_gradients[0]}},
                                                {{"pad", widths}, {"mode", std::string(kModes[static_cast<std::size_t>(*border)])}}, type)};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const bool backward = call.node.op == kBackward;
    const TensorType &narrow = backward ? call.results[0] : call.operands[0], &wide = backward ? call.operands[0] : call.results[0];
    const Result<Border> border = border_of(call.node);
    if (!border) return border.error();
    std::vector<std::vector<std::int64_t>> sources;
    const std::size_t rank = narrow.shape.size();
    for (std::size_t d = 0; d < rank; ++d) {
      const auto [before, after] = widths_at(widths_of(call.node), rank, d);
      if (narrow.shape[d] + before + after != wide.shape[d]) return bad_input("the shapes of operand and result do not go together");
      Result<std::vector<std::int64_t>> here = sources_of(*border, narrow.shape[d], wide.shape[d], before);
      if (!here) return here.error();
      sources.push_back(*std::move(here));
    }
    const std::vector<std::int64_t> from = strides_of(narrow.shape), to = strides_of(wide.shape);
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    const double value = call.node.number("value", 0);
    for (std::int64_t i = 0; i < wide.elements(); ++i) {
      std::int64_t rest = i, source = 0;
      for (std::size_t d = 0; d < rank && source >= 0; ++d) {
        const std::int64_t here = sources[d][static_cast<std::size_t>(rest / to[d])];
        rest %= to[d];
        source = here < 0 ? -1 : source + here * from[d];
      }
      if (!backward) result.set(i, source < 0 ? value : operands[0]->get(source));
      else if (source >= 0) result.set(source, result.get(source) + operands[0]->get(i));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "pad", "0.1.0", "Apache-2.0", "Padding with a constant or with what is inside", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Pad>), destroy_plugin<OpFamily>)

}  // namespace meshwright
