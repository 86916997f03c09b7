// Largest and smallest elements along dimensions that mesh axes cut (extremum.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> extremum(const EmitterCall& call, const CallText& text) {
  if (call.steps.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("extremum", {"self"}, {"dim", "keepdim"},
                                       {axes_argument("axes", moved_axes(call.steps)),
                                        call.op.ends_with("min") ? "largest=False" : ""}),
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.amax", "", extremum},
    {"torch:aten.amin", "", extremum},
    {"torch:aten.max", "", extremum},
    {"torch:aten.min", "", extremum},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_selection", "0.1.0", "Apache-2.0", "Largest and smallest elements, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
