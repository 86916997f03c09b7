#include "loss.h"

namespace meshwright {

// The count of labels that are not ignored, or of their weights, is added up over the ranks (meshwright.nll_count): along with the loss,
// and the backward knows it. That of probabilities is the number of positions, which shapes say.
bool emit_sharded_mean(const LocalCall& call) {
  const Node& node = call.call.node;
  const bool backward = is_backward(node);
  const ShardedType& target = *call.type("target");
  bool is_cut = false;
  ShardedType scalar{{call.type("self")->type.dtype, {}}, {}, target.layout};
  for (std::size_t axis = 0; axis < scalar.layout.mesh_rank(); ++axis) {
    const bool cuts = target.layout[axis].is_shard();
    scalar.layout.place(axis, cuts ? Placement::partial_sum() : Placement::replicate());
    is_cut |= cuts;
  }
  if (reduction_of(node) != LossReduction::mean || !is_cut) return false;
  LocalBuilder& build = call.build;
  ProgramValueId count = kNoId;
  Attributes by_number;
  if (has_probabilities(call.call)) {
    const TensorType& logits = call.type("self")->type;
    const std::int64_t classes = logits.shape[logits.rank() > 1 ? 1 : 0];
    by_number["other"] = static_cast<double>(logits.elements() / classes);
  } else {
    count = build.make(std::move(scalar));
    build.emit("meshwright.nll_count", {{"target", call.operand("target")}, {"weight", call.operand("weight")}},
               {{"ignore_index", node.integer("ignore_index", -100)}}, {}, {count});
    count = build.reduce_along(count);
  }
  Attributes attributes = node.attributes;
  attributes["reduction"] = static_cast<std::int64_t>(LossReduction::sum);
  const auto divide = [&](ProgramValueId sum, const std::vector<ProgramValueId>& results) {
    build.emit("aten.div.Tensor", {{"self", sum}, {"other", count}}, by_number, {}, results);
  };
  std::vector<Operand> operands = node.operands;
  if (!backward) {
    const ProgramValueId sum = build.make(call.results[0]);
    build.emit(node.op, operands, attributes, {}, {sum});
    divide(sum, node.results);
    return true;
  }
  const ProgramValueId gradient = build.make(*call.type("grad_output"));
  divide(call.operand("grad_output"), {gradient});
  operands[*node.operand_index("grad_output")].value = gradient;
  build.emit(node.op, operands, attributes, {}, node.results);
  return true;
}

}  // namespace meshwright
