// Views as people write them.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

constexpr TorchOp kOps[] = {
    {"torch:aten.view", "{self}.reshape({size})"},
    {"torch:aten.reshape", "{self}.reshape({shape})"},
    {"torch:aten._unsafe_view", "{self}.reshape({size})"},
    {"torch:aten.transpose.int", "{self}.transpose({dim0}, {dim1})"},
    {"torch:aten.permute", "{self}.permute({dims})"},
    {"torch:aten.t", "{self}.t()"},
    {"torch:aten.unsqueeze", "{self}.unsqueeze({dim})"},
    {"torch:aten.squeeze.dim", "{self}.squeeze({dim})"},
    {"torch:aten.expand", "{self}.expand({size})"},
    {"torch:aten.flatten.using_ints", "{self}.flatten({start_dim}[, {end_dim}])"},
    {"torch:aten.alias", "{self}"},
    {"torch:aten.detach", "{self}.detach()"},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_view", "0.1.0", "Apache-2.0", "Views, as PyTorch", kServes.data(), nullptr, 0,
                  create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
