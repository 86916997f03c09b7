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
  pass_backward,  // a partial gradient of the results gives partial gradients of the operands
};

struct AxisChoice {
  AxisUse use = AxisUse::repeat;
  FactorId factor = 0;     // for factor
  std::uint8_t atom = 0;   // for factor: which of its atoms
  std::uint8_t group = 0;  // for pass_forward: which linear group
  bool operator==(const AxisChoice&) const = default;
};

}  // namespace meshwright
