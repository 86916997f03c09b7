// Sums and means as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.mean", "{self}.mean()"},
    {"torch:aten.mean.dim", "{self}.mean({dim}[, keepdim={keepdim}])"},
    {"torch:aten.sum", "{self}.sum()"},
    {"torch:aten.sum.dim_IntList", "{self}.sum({dim}[, keepdim={keepdim}])"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_reduction", "0.1.0", "Apache-2.0", "Sums and means, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
