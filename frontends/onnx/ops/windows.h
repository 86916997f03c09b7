// Sizes of windows that slide over space, as Conv and the pools have them.
#pragma once

#include "../scope.h"

namespace meshwright::onnx {

struct Windows {
  std::vector<std::int64_t> kernel, strides, dilations, before, behind;  // one for each dimension of space
  Shape space;                                                           // how many windows
  [[nodiscard]] bool symmetric() const { return before == behind; }
};

// From the node's attributes; `kernel` where it has none of its own. Refuses lists of wrong lengths, and windows that
// do not fit.
Windows windows_of(Scope& scope, const std::vector<std::int64_t>& kernel, bool round_up);

// The value with `filling` around it, and the windows' pads taken away.
ValueId padded(Scope& scope, ValueId value, Windows& windows, double filling);

}  // namespace meshwright::onnx
