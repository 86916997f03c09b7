// Channels read as space and back: (c !r !s) h w <-> c (h !r) (w !s). What stays together is a pixel's block.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.pixel_shuffle", "aten.pixel_unshuffle", nullptr};

bool shuffles(const Node& node) { return node.op == "aten.pixel_shuffle"; }

class PixelShuffle final : public OpFamily {
 private:
  static std::int64_t block_of(const Node& node) { return node.integer(shuffles(node) ? "upscale_factor" : "downscale_factor", 1); }

  Result<Rule> do_rule(const OpCall& call) const override {
    const std::int64_t block = block_of(call.node);
    const TensorType& deep = shuffles(call.node) ? call.operands[0] : call.results[0];
    if (deep.rank() < 3 || block < 1 || deep.shape[deep.shape.size() - 3] % (block * block) != 0) {
      return bad_input("its channels are no multiple of a block of pixels");
    }
    Rule rule;
    const auto add = [&](const std::string& name, std::int64_t size, bool whole) {
      if (size == 1) return std::vector<FactorId>{};
      Factor factor;
      factor.name = name;
      factor.size = size;
      factor.whole = whole;
      rule.factors.push_back(std::move(factor));
      return std::vector{static_cast<FactorId>(rule.factors.size() - 1)};
    };
    const auto product = [](std::vector<FactorId> major, const std::vector<FactorId>& minor) {
      major.insert(major.end(), minor.begin(), minor.end());
      return major;
    };
    TensorRule channels, space;
    const std::size_t leading = deep.shape.size() - 3;
    for (std::size_t i = 0; i < leading; ++i) {
      channels.dimensions.push_back(add("d" + std::to_string(i), deep.shape[i], false));
      space.dimensions.push_back(channels.dimensions.back());
    }
    const auto c = add("c", deep.shape[leading] / (block * block), false), h = add("h", deep.shape[leading + 1], false),
               w = add("w", deep.shape[leading + 2], false), r = add("r", block, true), s = add("s", block, true);
    for (const auto& dimension : {product(product(c, r), s), h, w}) channels.dimensions.push_back(dimension);
    for (const auto& dimension : {c, product(h, r), product(w, s)}) space.dimensions.push_back(dimension);
    rule.operands = {shuffles(call.node) ? channels : space};
    rule.results = {shuffles(call.node) ? space : channels};
    rule.linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const bool back = shuffles(call.node);
    return std::vector<ValueId>{call.build.emit(back ? "aten.pixel_unshuffle" : "aten.pixel_shuffle", {{"self", call.result_gradients[0]}},
                                                {{back ? "downscale_factor" : "upscale_factor", block_of(call.node)}},
                                                call.type(call.node.operands[0].value))};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const std::int64_t block = block_of(call.node);
    const bool back = !shuffles(call.node);
    const std::vector<std::int64_t>& wide = (back ? call.operands[0] : call.results[0]).shape;  // c, h·r, w·s
    const std::int64_t width = wide.back(), height = wide[wide.size() - 2];
    if (block < 1 || width % block != 0 || height % block != 0) return bad_input("its space is no multiple of a block of pixels");
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      const std::int64_t x = i % width, y = i / width % height, c = i / (width * height);
      const std::int64_t channel = (c * block + y % block) * block + x % block;
      const std::int64_t deep = (channel * (height / block) + y / block) * (width / block) + x / block;
      result.set(back ? deep : i, operands[0]->get(back ? i : deep));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "pixel_shuffle", "0.1.0", "Apache-2.0", "Channels read as space, and back", kOps, nullptr, 0,
                  (create_plugin<OpFamily, PixelShuffle>), destroy_plugin<OpFamily>)

}  // namespace meshwright
