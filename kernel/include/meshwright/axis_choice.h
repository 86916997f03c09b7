// Where a strategy puts a mesh axis at one op.
#pragma once

#include <cstdint>

#include "meshwright/rule.h"

namespace meshwright {

// What a strategy does with one mesh axis.
enum class AxisUse : std::uint8_t {
  repeat,         // nothing: the devices along the axis do the same work
  factor,         // shards one atom of one factor
  pass_forward,   // partial operands (a linear group) give partial results
  exchange,       // shards one atom of an exchange's `from`, and the outermost one of its `to`
  pass_backward,  // a partial gradient of the results gives partial gradients of the operands
};

struct AxisChoice {
  AxisUse use = AxisUse::repeat;
  FactorId factor = 0;     // that is sharded; of an exchange its `from`
  std::uint8_t atom = 0;   // which of the factor's atoms
  std::uint8_t group = 0;  // pass_forward: the index of the linear group; exchange: that of the rule's exchange
  bool operator==(const AxisChoice&) const = default;
};

}  // namespace meshwright
