// Batch norms of every kind by one function of the prelude (batch_norm.py), whose batch several ranks may share.
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// Eval mode turns off what training mode takes of the batch: its mean and variance, where there are running ones.
Result<EmittedOp> batch_norm(const EmitterCall& call, const CallText& text) {
  const bool of_batch = !call.op.ends_with("no_training") && call.node().boolean("training", true);
  const bool follows_mode = of_batch && call.operand("running_mean") != nullptr;
  const std::string training = std::string("training=") + (follows_mode ? "self.training"
                                                           : of_batch   ? "True"
                                                                        : "False");
  const auto written = [&](const char* function) {
    return text.helper(function, {"input", "weight", "bias", "running_mean", "running_var"}, {"momentum", "eps"},
                       {training, axes_argument("axes", moved_axes(call.steps))});
  };
  std::vector<std::pair<std::size_t, std::string>> left;
  if (follows_mode) left = {{3, "running_mean"}, {4, "running_var"}};
  return EmittedOp{.text = written("batch_norm"),
                   .leaving = written("batch_norm_left"),
                   .left = std::move(left),
                   .values = 5,
                   .buffers_follow_mode = follows_mode,
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten._native_batch_norm_legit", "", batch_norm},
    {"torch:aten._native_batch_norm_legit.no_stats", "", batch_norm},
    {"torch:aten._native_batch_norm_legit_functional", "", batch_norm},
    {"torch:aten._native_batch_norm_legit_no_training", "", batch_norm},
    {"torch:aten.batch_norm", "", batch_norm},
    {"torch:aten.native_batch_norm", "", batch_norm},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_batch_norm", "0.1.0", "Apache-2.0", "Batch norms, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
