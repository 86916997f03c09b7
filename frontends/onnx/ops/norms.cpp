// Normalizations and softmax.
#include <cmath>

#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_softmax(Scope& scope) {
  const auto axis = static_cast<std::int64_t>(scope.axis(scope.integer("axis", -1), scope.type(0).rank()));
  scope.bind(0, scope.emit(scope.node.op == "Softmax" ? "aten.softmax.int" : "aten.log_softmax.int",
                           {{"self", scope.value(0)}}, {{"dim", axis}}, scope.type(0)));
}

// LayerNormalization and RMSNormalization, over the dimensions from `axis` on.
void translate_layer_norm(Scope& scope) {
  const bool mean = scope.node.op == "LayerNormalization";
  const TensorType type = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", -1), type.rank());
  const Shape normalized(type.shape.begin() + static_cast<std::ptrdiff_t>(axis), type.shape.end());
  if (scope.wants(1) || scope.wants(2)) scope.refuse("its statistics are used as results, which is not supported");
  std::vector<Operand> operands = {{"input", scope.value(0)}};
  const std::size_t last = mean ? 2 : 1;
  for (std::size_t i = 1; i <= last; ++i) {
    if (!scope.has(i)) continue;
    if (scope.shape(i) != normalized)
      scope.refuse("its scale or bias has another shape than what it normalizes, which is not supported");
    operands.push_back({i == 1 ? "weight" : "bias", scope.value(i)});
  }
  scope.bind(0, scope.emit(mean ? "aten.layer_norm" : "aten.rms_norm", operands,
                           {{"normalized_shape", normalized}, {"eps", scope.number("epsilon", 1e-5)}}, type));
}

void translate_batch_norm(Scope& scope) {
  const TensorType type = scope.type(0);
  if (type.rank() < 2) scope.refuse("its operand has no channels");
  const TensorType channels{scope.type(1).dtype, {type.shape[1]}};
  for (std::size_t i = 1; i <= 4; ++i) {
    if (scope.shape(i) != channels.shape)
      scope.refuse("its scale, bias and statistics must have one number for each of the " +
                   std::to_string(type.shape[1]) + " channels");
  }
  const std::vector<Operand> operands = {{"input", scope.value(0)},
                                         {"weight", scope.value(1)},
                                         {"bias", scope.value(2)},
                                         {"running_mean", scope.value(3)},
                                         {"running_var", scope.value(4)}};
  Attributes attributes = {{"eps", scope.number("epsilon", 1e-5)}, {"momentum", 1 - scope.number("momentum", 0.9)}};
  // 1 - 0.9 is not 0.1; PyTorch's momentum was a decimal number.
  attributes["momentum"] =
      std::floor(std::get<double>(attributes["momentum"]) * 1e9 + 0.5) / 1e9;
  if (scope.integer("training_mode", 0) == 0 && !scope.options().batch_statistics) {
    const TensorType none{channels.dtype, {0}};
    scope.bind(0, scope.emit("aten._native_batch_norm_legit_no_training", operands, attributes, {type, none, none})[0]);
    return;
  }
  attributes["training"] = true;
  const std::vector<ValueId> results = scope.emit("aten._native_batch_norm_legit_functional", operands, attributes,
                                                  {type, channels, channels, channels, channels});
  scope.bind(0, results[0]);
  scope.bind(1, results[3]);
  scope.bind(2, results[4]);
  if (scope.is_weight(3)) scope.mutate(scope.node.inputs[3], results[3]);
  if (scope.is_weight(4)) scope.mutate(scope.node.inputs[4], results[4]);
}

void translate_group_norm(Scope& scope) {
  const TensorType type = scope.type(0);
  const std::int64_t groups = scope.integer("num_groups", 1);
  if (scope.opset() < 21)
    scope.refuse(
        "before opset 21 it has a scale for each group, which PyTorch has not; export with opset_version=21 or more");
  scope.bind(0, scope.emit("aten.group_norm",
                           {{"input", scope.value(0)}, {"weight", scope.value(1)}, {"bias", scope.value(2)}},
                           {{"num_groups", groups}, {"eps", scope.number("epsilon", 1e-5)}}, type));
}

void translate_instance_norm(Scope& scope) {
  scope.bind(0, scope.emit("aten.instance_norm",
                           {{"input", scope.value(0)}, {"weight", scope.value(1)}, {"bias", scope.value(2)}},
                           {{"use_input_stats", true}, {"momentum", 0.1}, {"eps", scope.number("epsilon", 1e-5)}},
                           scope.type(0)));
}

// x / (|x|^p summed)^(1/p), for p 1 and 2.
void translate_lp_normalization(Scope& scope) {
  const TensorType type = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", -1), type.rank());
  const std::int64_t p = scope.integer("p", 2);
  const ValueId value = scope.value(0);
  ValueId size = p == 1 ? scope.emit("aten.abs", {{"self", value}}, {}, type)
                        : scope.emit("aten.mul.Tensor", {{"self", value}, {"other", value}}, {}, type);
  size = scope.emit("aten.sum.dim_IntList", {{"self", size}},
                    {{"dim", std::vector<std::int64_t>{static_cast<std::int64_t>(axis)}}, {"keepdim", true}},
                    {type.dtype, reduced(type.shape, {axis}, true)});
  if (p != 1) size = scope.emit("aten.sqrt", {{"self", size}}, {}, scope.type_of(size));
  scope.bind(0, scope.emit("aten.div.Tensor", {{"self", value}, {"other", size}}, {}, type));
}

}  // namespace

void add_norms(Translations& all) {
  for (const char* op : {"Softmax", "LogSoftmax"}) all[op] = translate_softmax;
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) all[op] = translate_layer_norm;
  all["BatchNormalization"] = translate_batch_norm;
  all["GroupNormalization"] = translate_group_norm;
  all["InstanceNormalization"] = translate_instance_norm;
  all["LpNormalization"] = translate_lp_normalization;
}

}  // namespace meshwright::onnx
