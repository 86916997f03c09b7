// Convolutions: batch, input channels (a reduction), output channels and groups shard.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.conv2d", "aten.conv1d", "aten.conv2d.padding", "aten.conv1d.padding",
                                "aten.convolution", nullptr};

class Convolution final : public OpFamily {
 private:
  // Space stays whole: sharding it needs an exchange of halos. With groups the channels are products g c.
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.node.boolean("transposed", false)) return bad_input("transposed convolutions are not supported");
    const std::int64_t groups = call.node.integer("groups", 1);
    const std::string group = groups > 1 ? std::to_string(groups) : "";
    const std::int64_t space = call.operands[0].rank() - 2;
    std::string in, kernel, out;
    for (std::int64_t i = 0; i < space; ++i) {
      in += " !x" + std::to_string(i);
      kernel += " !k" + std::to_string(i);
      out += " !y" + std::to_string(i);
    }
    const auto channels = [&](const std::string& name) { return group.empty() ? name : "(" + group + " " + name + ")"; };
    std::string text = "n " + channels("i") + in + ", " + channels("o") + " i" + kernel;
    if (call.operand("bias")) text += ", +" + channels("o");
    return parse_rule(text + " -> n " + channels("o") + out, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = true;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 2;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      if (rule.factors[factor].name[0] != 'x') term.factors.push_back(factor);  // outputs times kernel, not inputs
    }
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "convolution", "0.1.0", "Apache-2.0", "Convolutions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Convolution>), destroy_plugin<OpFamily>)

}  // namespace meshwright
