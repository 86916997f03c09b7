// Matrix products as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.linear", "F.linear({input}, {weight}[, {bias}])"},
    {"torch:aten.matmul", "{self} @ {other}"},
    {"torch:aten.mm", "{self} @ {mat2}"},
    {"torch:aten.bmm", "{self} @ {mat2}"},
    {"torch:aten.addmm", "torch.addmm({self}, {mat1}, {mat2}[, beta={beta}][, alpha={alpha}])"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_matmul", "0.1.0", "Apache-2.0", "Matrix products, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
