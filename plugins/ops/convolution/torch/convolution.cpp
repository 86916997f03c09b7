// Convolutions as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.conv2d",
     "F.conv2d({input}, {weight}[, {bias}][, stride={stride}][, padding={padding}]"
     "[, dilation={dilation}][, groups={groups}])"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_convolution", "0.1.0", "Apache-2.0", "Convolutions, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
