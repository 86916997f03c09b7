#include "../scope.h"

namespace meshwright::onnx {

namespace {

// [N, C] or [N, C, ...] with labels [N, ...].
void translate_cross_entropy(Scope& scope) {
  const bool of_logits = scope.node.op == "SoftmaxCrossEntropyLoss";
  if (scope.wants(1)) scope.refuse("its log probabilities are used as a result, which is not supported");
  const Shape scores = scope.shape(0), labels = scope.shape(1);
  if (scores.size() < 2 || labels.size() + 1 != scores.size()) scope.refuse("its labels do not go with its scores");
  const std::string reduction = scope.text("reduction", "mean");
  TensorType type{scope.type(0).dtype, reduction == "none" ? labels : Shape{}};
  Attributes attributes;
  if (reduction != "mean") attributes["reduction"] = std::int64_t{reduction == "none" ? 0 : 2};
  if (scope.integer("ignore_index", -100) != -100) attributes["ignore_index"] = scope.integer("ignore_index", -100);
  const ValueId target = scope.cast(scope.value(1), DType::int64);
  scope.bind(
      0, scope.emit(of_logits ? "aten.cross_entropy_loss" : "aten.nll_loss_nd",
                    {{"self", scope.value(0)}, {"target", target}, {"weight", scope.has(2) ? scope.value(2) : kNoId}},
                    attributes, type));
}

}  // namespace

void add_losses(Translations& all) {
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) all[op] = translate_cross_entropy;
}

}  // namespace meshwright::onnx
