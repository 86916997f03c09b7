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

std::string choice_text(const PlannedVariable& variable) {
  std::string text;
  if (variable.kind == VariableKind::node) {
    for (const std::string& axis : variable.axes) text += (text.empty() ? "" : ", ") + axis;
    return text;
  }
  if (variable.kind == VariableKind::output) return variable.operands[0].layout;
  const PlannedPort& port = variable.results[0];
  if (variable.kind == VariableKind::fork) return port.layout + ", gradient " + port.gradient_layout;
  text = variable.compute_layout;
  if (port.layout != variable.compute_layout) text += " from " + port.layout;
  if (variable.zero != ZeroStage::none) text += ", ZeRO-" + std::to_string(static_cast<int>(variable.zero));
  if (variable.state_layout != port.layout) text += ", state " + variable.state_layout;
  if (variable.regather) text += ", gathered again";
  if (variable.prefetch) text += ", prefetched";
  return text;
}

}  // namespace meshwright
