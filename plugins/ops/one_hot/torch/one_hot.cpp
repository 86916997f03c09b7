// Ones at labels; of classes that are cut, those that are here (one_hot.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> one_hot(const EmitterCall& call, const CallText& text) {
  const std::string classes = positions_argument(call, "classes");
  if (classes.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("one_hot", {"self"}, {"num_classes"}, {classes}), .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.one_hot", "", one_hot},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_one_hot", "0.1.0", "Apache-2.0", "Ones at labels, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
