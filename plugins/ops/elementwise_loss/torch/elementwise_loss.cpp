// Losses of single elements as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.mse_loss", "F.mse_loss({self}, {target}[, reduction={reduction}])"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_elementwise_loss", "0.1.0", "Apache-2.0", "Losses by elements, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
