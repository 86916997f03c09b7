// The part of a space that is left when only some strategies may be chosen, with memory at a few points in time alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem.h"

namespace meshwright::elimination {

using Kept = std::vector<std::vector<std::uint32_t>>;  // the strategies left, by node; at least one each

// In the result the points are the times 0, 1, ..., and only bytes beyond their `least` are held.
StrategySpace restrict_space(const StrategySpace& space, const Kept& kept, std::span<const MemoryPoint> points);

}  // namespace meshwright::elimination
