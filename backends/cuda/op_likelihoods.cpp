// The negative log-likelihood of labels, its gradient, and the count that a mean is divided by.
#include <string>

#include "kernels/likelihoods.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kLikelihoodGradient = "meshwright.nll_backward", kLabelCount = "meshwright.nll_count";

Status write_likelihood(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool backward = node.op == kLikelihoodGradient;
  const Seen& result = writer.results[0];
  LikelihoodArguments a;
  a.counts = node.op == kLabelCount;
  a.ignored = node.integer("ignore_index", -100);
  a.reduction = a.counts ? LossReduction::sum : static_cast<LossReduction>(node.integer("reduction", 1));
  a.has_weight = writer.operand("weight") != nullptr;
  std::vector<Range> reads, writes{result.range()};
  const std::pair<const char*, View*> named[] = {
      {"self", &a.logs}, {"target", &a.labels}, {"weight", &a.weight}, {"grad_output", &a.gradient}};
  if (Status status = writer.view_in_rows(named, reads); !status) return status;
  const TensorType& labels = writer.operand("target")->type;
  a.positions = labels.elements();
  const std::int64_t examples = labels.shape.empty() ? 1 : labels.shape[0];
  if (examples > 0) a.space = a.positions / examples;
  const TensorType& table = backward ? result.type : writer.operands[0].type;
  a.classes = !a.counts      ? table.shape[table.rank() > 1 ? 1 : 0]
              : a.has_weight ? writer.operand("weight")->type.elements()
                             : 0;
  const Result<Shard> shard = shard_of(node, "classes", a.classes);
  const Result<View> made = view_for(result, {});
  if (!shard) return shard.error();
  if (!made) return made.error();
  a.shard = *shard;
  a.result = *made;
  if (a.space == 0) return bad_input("cuda has no kernel for " + node.op + " of nothing");
  if (!backward) a.fault = writer.fault(reads, writes);
  writer.launch(backward ? KernelId::likelihood_gradient : KernelId::likelihood, a, result.type.elements(),
                std::move(reads), std::move(writes));
  return Done{};
}

}  // namespace

WriteOp likelihood_op(std::string_view op) {
  const bool is_one = op == "aten.nll_loss_nd" || op == "aten.nll_loss" || op == "aten.nll_loss2d" ||
                      op == kLikelihoodGradient || op == kLabelCount;
  return is_one ? write_likelihood : nullptr;
}

}  // namespace meshwright::cuda
