// Brings a choice within the rooms, and makes the most of single moves.
#pragma once

#include <cstdint>
#include <span>

#include "search_state.h"

namespace meshwright {

// Moves nodes off the highest peak, one at a time, each time the one that costs the least for the bytes that it takes
// off; bytes at other points count at `prices_before` (the sum of the points' prices before each point). False if it
// is stuck or has looked at `most_work`; what it looks at is added to `work`.
bool repair(SearchState& state, std::span<const double> prices_before, std::int64_t most_work, std::int64_t& work);

// Moves that lower the cost and fit, node by node, until there is none. The state fits.
void descend(SearchState& state, std::span<const std::uint32_t> nodes, std::int64_t& work);

}  // namespace meshwright
