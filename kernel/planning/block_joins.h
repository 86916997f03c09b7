// Plans that are one of two in some of a model's blocks, and the other one in the rest.
//
// An average of paths makes two ways of computing a block equally good, and then a search takes one of them for all: what is faster than both is to
// compute some blocks in the one and some in the other, so that what the one leaves idle the other one uses.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

using Choice = std::vector<std::uint32_t>;  // a strategy for each variable

// By variable the number of its block, ascending: what is outside of blocks goes with the one before it. A model with few blocks is cut into equal parts.
std::vector<std::uint32_t> block_numbers(const ProblemInput& input, const Problem& problem);

// Of two plans those that are the one up to some block, and then the other.
std::vector<Choice> joined_at_cuts(const std::vector<std::uint32_t>& blocks, const Choice& one, const Choice& other);

// Those that are the one but for every second, third, ... block: both lie as near to each other as they can.
std::vector<Choice> joined_in_turns(const std::vector<std::uint32_t>& blocks, const Choice& one, const Choice& other);

}  // namespace meshwright
