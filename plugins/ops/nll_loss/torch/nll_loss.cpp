// The loss of each label among scores; of classes or labels that are cut by the prelude (nll_loss.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

Result<EmittedOp> nll_loss(const EmitterCall& call, const CallText& text) {
  std::vector<std::string> more;
  bool is_mean = false;
  if (call.steps.empty()) {
    more = {positions_argument(call, "classes")};
    if (more.front().empty()) return EmittedOp{};
  } else {
    const ShardedType &target = call.operand("target")->type, &scores = call.operand("self")->type;
    // Of scores [n, c, ...] or [c].
    const auto is_class = [&](Placement placement) {
      return placement.is_shard() && scores.atoms.dimension_of(placement.atom()) == (scores.type.rank() > 1 ? 1U : 0U);
    };
    const auto is_shard = [](Placement placement) { return placement.is_shard(); };
    const std::vector<std::int64_t> over = axes_where(call.mesh, target.layout, is_shard);
    more = {axes_argument("class_axes", axes_where(call.mesh, scores.layout, is_class)), axes_argument("position_axes", over),
            positions_argument(call.steps.front(), "classes")};
    is_mean = is_mean_over(call, over);
  }
  const auto written = [&] { return text.helper("nll_loss", {"self", "target"}, {"weight", "reduction", "ignore_index"}, more); };
  EmittedOp made{.text = written(), .prelude = kPrelude};
  if (!is_mean) return made;
  more.push_back(named("summed", "True"));
  made.summed = written();
  return made;
}

constexpr TorchOp kOps[] = {
    {"torch:aten.nll_loss_nd",
     "F.nll_loss({self}, {target}[, weight={weight}][, reduction={reduction}]"
     "[, ignore_index={ignore_index}])",
     nll_loss},
    {"torch:aten.nll_loss", "", nll_loss},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_nll_loss", "0.1.0", "Apache-2.0", "The loss of each label, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
