// Cross entropy; of classes that mesh axes cut without gathering them, of labels that they cut by sums, and of large logits with
// less memory (cross_entropy.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// So many logits that memory matters more than the host's time.
constexpr std::int64_t kMany = std::int64_t{1} << 20;

Result<EmittedOp> whole(const EmitterCall& call, const CallText& text) {
  const TensorType logits = call.local(call.operand("self")->type);
  const bool has_labels = !is_floating(call.operand("target")->type.type.dtype);
  if (logits.rank() != 2 || logits.elements() < kMany || !has_labels || call.node().number("label_smoothing", 0) != 0) return EmittedOp{};
  return EmittedOp{.text = text.helper("whole_cross_entropy", {"self", "target"}, {"weight", "reduction", "ignore_index"}, {}), .prelude = kPrelude};
}

Result<EmittedOp> cross_entropy(const EmitterCall& call, const CallText& text) {
  const ShardedType& logits = call.operand("self")->type;
  if (call.steps.empty()) return whole(call, text);
  // Of logits [n, c, ...] or [c].
  const auto is_class = [&](Placement placement) {
    return placement.is_shard() && logits.atoms.dimension_of(placement.atom()) == (logits.type.rank() > 1 ? 1U : 0U);
  };
  const auto is_position = [&](Placement placement) { return placement.is_shard() && !is_class(placement); };
  const std::vector<std::int64_t> over = axes_where(call.mesh, logits.layout, is_position);
  std::vector<std::string> more = {axes_argument("class_axes", axes_where(call.mesh, logits.layout, is_class)),
                                   axes_argument("position_axes", over), positions_argument(call.steps.front(), "classes")};
  const auto written = [&] {
    return text.helper("cross_entropy", {"self", "target"}, {"weight", "reduction", "ignore_index", "label_smoothing"}, more);
  };
  EmittedOp made{.text = written(), .prelude = kPrelude};
  if (!is_mean_over(call, over)) return made;
  more.push_back(named("summed", "True"));
  made.summed = written();
  return made;
}

constexpr TorchOp kOps[] = {
    {"torch:aten.cross_entropy_loss",
     "F.cross_entropy({self}, {target}[, weight={weight}][, reduction={reduction}]"
     "[, ignore_index={ignore_index}][, label_smoothing={label_smoothing}])",
     cross_entropy},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_loss", "0.1.0", "Apache-2.0", "Cross entropy, as PyTorch", kServes.data(), nullptr,
                  0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
