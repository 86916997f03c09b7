// What re-solving a window of nodes, all others as they are, came to.
#pragma once

#include <cstdint>

namespace meshwright {

enum class WindowOutcome : std::uint8_t {
  better,    // fits, and costs less
  sideways,  // fits, costs the same, and differs
  over,      // costs less, and does not fit: the last round's solution
  none,      // proven that no choice of the window costs less
  open,      // not known
};

}  // namespace meshwright
