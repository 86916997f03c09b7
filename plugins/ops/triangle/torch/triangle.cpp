// Triangles of matrices, of which the rank may have some rows and columns (triangle.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> triangle(const EmitterCall& call, const CallText& text) {
  if (call.rank_attributes.empty()) return EmittedOp{};
  const std::string name = call.op.substr(call.op.find('.') + 1);
  return EmittedOp{.text = text.helper(name, {"self"}, {"diagonal"},
                                       {positions_argument(call, "rows"), positions_argument(call, "columns")}),
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.tril", "", triangle},
    {"torch:aten.triu", "", triangle},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_triangle", "0.1.0", "Apache-2.0", "Triangles of matrices, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
