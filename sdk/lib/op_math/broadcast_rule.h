// The rule of ops that treat every element alike: one factor for each dimension of the result, and 1 where an operand is
// broadcast.
#pragma once

#include <string>

#include "meshwright/op.h"

namespace meshwright {

inline std::string broadcast_dimensions(const TensorType& type, const TensorType& result) {
  std::string text;
  const std::int64_t missing = result.rank() - type.rank();
  for (std::int64_t i = 0; i < type.rank(); ++i) {
    const bool broadcast = type.shape[static_cast<std::size_t>(i)] == 1;
    text += (i > 0 ? " " : "") + (broadcast ? std::string("1") : "~d" + std::to_string(missing + i));
  }
  return text;
}

inline Result<Rule> broadcast_rule(const OpCall& call) {
  std::string text;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {  // a scalar's text is empty
    text += (i > 0 ? ", " : "") + broadcast_dimensions(call.operands[i], call.results[0]);
  }
  return parse_rule(text + " -> " + broadcast_dimensions(call.results[0], call.results[0]), call.operands, call.results);
}

}  // namespace meshwright
