// Rows of a table; of one whose rows are cut, those that are here (embedding.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> embedding(const EmitterCall& call, const CallText& text) {
  const std::string rows = positions_argument(call, "rows");
  if (rows.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("embedding", {"weight", "indices"}, {"padding_idx"}, {rows}),
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.embedding", "F.embedding({indices}, {weight}[, padding_idx={padding_idx}])", embedding},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_embedding", "0.1.0", "Apache-2.0", "Rows of a table, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
