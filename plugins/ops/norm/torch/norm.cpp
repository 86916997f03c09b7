// Norms as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.softmax.int", "F.softmax({self}, dim={dim}[, dtype={dtype}])"},
    {"torch:aten.layer_norm", "F.layer_norm({input}, {normalized_shape}[, {weight}][, bias={bias}][, eps={eps}])"},
    {"torch:aten.rms_norm", "F.rms_norm({input}, {normalized_shape}[, {weight}][, eps={eps}])"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_norm", "0.1.0", "Apache-2.0", "Norms along dimensions, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
