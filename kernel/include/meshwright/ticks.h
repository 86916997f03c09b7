// Time as integers: seconds are rounded once, where they are priced, so that sums do not depend on their order and solvers
// agree exactly. Sums of ticks are 128 bits wide.
#pragma once

#include <cstdint>

#include "meshwright/export.h"

namespace meshwright {

using Ticks = std::int64_t;     // picoseconds, in problems made from a model
using TickSum = __int128;       // what sums of Ticks are held in
inline constexpr Ticks kTicksPerSecond = 1'000'000'000'000;
inline constexpr Ticks kForbidden = 1'000'000'000'000'000'000;

// Rounds to the nearest tick, once. Seconds must be finite and not negative.
MESHWRIGHT_API Ticks to_ticks(double seconds);
constexpr double to_seconds(TickSum ticks) { return static_cast<double>(ticks) / static_cast<double>(kTicksPerSecond); }

}  // namespace meshwright
