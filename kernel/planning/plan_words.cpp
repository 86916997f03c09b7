#include "plan_words.h"

namespace meshwright {

std::string_view word(SourceKind kind) {
  switch (kind) {
    case SourceKind::parameter:
      return "parameter";
    case SourceKind::buffer:
      return "buffer";
    case SourceKind::constant:
      return "constant";
    case SourceKind::user_input:
      return "user_input";
    case SourceKind::received:
      return "received";
  }
  return "?";
}

std::string_view word(OutputKind kind) {
  switch (kind) {
    case OutputKind::loss:
      return "loss";
    case OutputKind::user_output:
      return "user_output";
    case OutputKind::buffer_mutation:
      return "buffer_mutation";
    case OutputKind::sent:
      return "sent";
  }
  return "?";
}

std::string_view word(VariableKind kind) {
  switch (kind) {
    case VariableKind::parameter:
      return "parameter";
    case VariableKind::node:
      return "node";
    case VariableKind::fork:
      return "fork";
    case VariableKind::output:
      return "output";
  }
  return "?";
}

std::string_view word(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return "sgd";
    case Optimizer::momentum:
      return "momentum";
    case Optimizer::adam:
      return "adam";
    case Optimizer::adamw:
      return "adamw";
  }
  return "?";
}

std::string_view word(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::none:
      return "none";
    case ZeroStage::optimizer:
      return "optimizer";
    case ZeroStage::gradient:
      return "gradient";
    case ZeroStage::value:
      return "value";
  }
  return "?";
}

std::string_view word(CostCoefficient coefficient) {
  switch (coefficient) {
    case CostCoefficient::link_bandwidth:
      return "link_bandwidth";
    case CostCoefficient::link_latency:
      return "link_latency";
    case CostCoefficient::product_rate:
      return "product_rate";
    case CostCoefficient::attention_rate:
      return "attention_rate";
    case CostCoefficient::memory_bandwidth:
      return "memory_bandwidth";
    case CostCoefficient::host_time:
      return "host_time";
  }
  return "?";
}

std::vector<std::string> axes_text(const ModelAnalysis& model, const PlannedNode& node) {
  std::vector<std::string> texts;
  for (const AxisChoice& axis : node.call.axes) texts.push_back(to_string(axis, model.atoms->nodes[node.node]));
  return texts;
}

std::string choice_text(const ModelAnalysis& model, const PlannedVariable& variable) {
  std::string text;
  if (const PlannedNode* node = variable.node()) {
    for (const std::string& axis : axes_text(model, *node)) text += (text.empty() ? "" : ", ") + axis;
    return text;
  }
  const auto layout_text = [&](const Layout& layout, ValueId value) { return to_string(layout, model.atoms->values[value]); };
  if (const auto* output = std::get_if<PlannedOutput>(&variable.choice)) return layout_text(output->layouts.value, output->value);
  if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) {
    return layout_text(fork->layouts.value, fork->value) + ", gradient " + layout_text(fork->layouts.gradient, fork->value);
  }
  const PlannedParameter& parameter = *variable.parameter();
  const auto own = [&](const Layout& layout) { return layout_text(layout, parameter.value); };
  text = own(parameter.compute);
  if (parameter.stored.value != parameter.compute) text += " from " + own(parameter.stored.value);
  if (parameter.zero != ZeroStage::none) text += ", ZeRO-" + std::to_string(static_cast<int>(parameter.zero));
  if (parameter.state != parameter.stored.value) text += ", state " + own(parameter.state);
  if (parameter.regather) text += ", gathered again";
  if (parameter.prefetch) text += ", prefetched";
  return text;
}

}  // namespace meshwright
