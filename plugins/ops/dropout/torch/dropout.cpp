// Dropout by the number of the element in the whole tensor (dropout.py); kinds of it that no family knows, on whole
// tensors.
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> dropout(const EmitterCall& call, const CallText& text) {
  const Node node = call.node();
  const bool drops = node.boolean("train", true) && node.number("p", 0.5) > 0;
  const std::string name = call.op.substr(call.op.find('.') + 1);
  return EmittedOp{.text = text.helper(name, {"input"}, {"p"},
                                       {drops ? "training=self.training" : "training=False", stream_argument(call),
                                        positions_argument(call, "elements")}),
                   .draws = true,
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.dropout", "", dropout},
    {"torch:aten.native_dropout", "", dropout},
    {"torch:aten.alpha_dropout", "", write_drawn_alike},
    {"torch:aten.feature_dropout", "", write_drawn_alike},
    {"torch:aten.feature_alpha_dropout", "", write_drawn_alike},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_dropout", "0.1.0", "Apache-2.0", "Dropout, as PyTorch", kServes.data(), nullptr, 0,
                  create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
