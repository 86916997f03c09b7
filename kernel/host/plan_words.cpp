#include "plan_words.h"

namespace meshwright::host {

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

}  // namespace meshwright::host
