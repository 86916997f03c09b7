// Losses that compare element by element: a function of prediction and target, times a weight, summed.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "kernels/pointwise.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

struct ElementwiseLoss {
  Function function = Function::squared_distance;
  double number = 0;
};

std::optional<ElementwiseLoss> elementwise_loss_of(const Node& node) {
  const std::string& op = node.op;
  if (op == "aten.mse_loss") return ElementwiseLoss{Function::squared_distance, 0};
  if (op == "aten.l1_loss") return ElementwiseLoss{Function::distance, 0};
  if (op == "aten.smooth_l1_loss") return ElementwiseLoss{Function::smooth_distance, node.number("beta", 1)};
  if (op == "aten.huber_loss") return ElementwiseLoss{Function::huber_distance, node.number("delta", 1)};
  if (op == "aten.binary_cross_entropy") return ElementwiseLoss{Function::binary_loss, 0};
  if (op == "aten.binary_cross_entropy_with_logits") return ElementwiseLoss{Function::logit_loss, 0};
  if (op == "aten.soft_margin_loss") return ElementwiseLoss{Function::margin_loss, 0};
  if (op != "aten.kl_div") return std::nullopt;
  const bool logarithms = node.boolean("log_target", false);
  return ElementwiseLoss{logarithms ? Function::divergence_of_logarithms : Function::divergence, 0};
}

Status write_elementwise_loss(OpWriter& writer) {
  const Node& node = writer.call.node;
  const std::optional<ElementwiseLoss> loss = elementwise_loss_of(node);
  const Seen& result = writer.results[0];
  const std::int64_t reduction = node.integer("reduction", 1);
  const bool reduces = reduction != 0;
  Seen each = result;
  if (reduces) {  // as the family, which rounds the sum alone
    const DType between = result.type.dtype == DType::float64 ? DType::float64 : DType::float32;
    each = writer.in_scratch(between, joint_shape(writer.operands));
  }
  std::vector<const Seen*> operands{writer.operand("self"), writer.operand("target")};
  if (const Seen* positive = writer.operand("pos_weight")) operands.push_back(positive);
  if (Status status = apply(writer, loss->function, loss->number, operands, each); !status) return status;
  if (const Seen* weight = writer.operand("weight")) {
    if (Status status = apply(writer, Function::multiply, 1, {&each, weight}, each); !status) return status;
  }
  if (!reduces) return Done{};
  const double divisor = reduction == 1 ? static_cast<double>(each.type.elements()) : 1;
  return sum_chunks(writer, seen_at(each.data, {each.type.dtype, {each.type.elements(), 1}}), divisor, result);
}

}  // namespace

WriteOp elementwise_loss_op(std::string_view op) {
  Node node;
  node.op = op;
  return elementwise_loss_of(node) ? write_elementwise_loss : nullptr;
}

}  // namespace meshwright::cuda
