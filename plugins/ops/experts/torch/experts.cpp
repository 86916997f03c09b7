// Layers of experts, on which tokens or experts are cut, or both (experts.py).
#include <algorithm>

#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "python_text.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// What is kept for the op's own gradient, all results but the first, autograd makes by itself.
Result<EmittedOp> experts(const EmitterCall& call, const CallText& text) {
  std::vector<std::string> more;
  if (call.steps.empty()) {
    more = {positions_argument(call, "experts")};
  } else {
    const EmitterStep& dispatch = call.steps.front();
    const auto rows =
        std::ranges::find_if(call.steps, [](const EmitterStep& step) { return step.op == "meshwright.experts_rows"; });
    if (rows != call.steps.end()) more.push_back(positions_argument(*rows, "experts"));
    more.push_back(axes_argument("exchanged", moved_axes(call.steps)));
    if (dispatch.results.size() > 1)
      more.push_back("capacity=" + std::to_string(dispatch.results[1].type.shape.back()));
    const auto destinations = dispatch.attributes.find("destinations");
    if (destinations != dispatch.attributes.end()) more.push_back("destinations=" + literal(destinations->second));
  }
  return EmittedOp{
      .text = text.helper("experts", {"hidden", "indices", "weights", "gate_up", "down"},
                          {"gate_up_bias", "activation", "in_first", "interleaved", "alpha", "limit"}, more),
      .values = 1,
      .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:meshwright.experts", "", experts},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_experts", "0.1.0", "Apache-2.0", "Layers of experts, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
