// A model's own autograd functions, which whoever runs the program puts into FUNCTIONS (function.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "python_text.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> function(const EmitterCall& call, const CallText& text) {
  return EmittedOp{.text = "function(" + quoted(call.node().text("name", "")) + ", *" + text.text_of("tensors") + ")",
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:meshwright_function.call", "", function},
    {"torch:meshwright_function.pointwise", "", function},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_function", "0.1.0", "Apache-2.0", "A model's own autograd functions, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
