// Paths through a training step: what one of them goes through, each plan takes that long at least (decision 041).
//
// A step goes through *places*: the microbatches before the last one, the forward of the last one in a few stretches, its backward
// in the same from the last to the first, and the updates. At a place something is issued by the host, computed, gathered for what is computed
// there, or begun on the communication stream. A path goes through one of these at each place, and changes over where the one
// waits for the other in every plan: what is computed or sent, for the host that issues it; an op, for the gather of what it needs;
// a reduction, for what is computed before it; the updates, for all reductions. No step is shorter than any of its paths, nor than any average of them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "meshwright/export.h"

namespace meshwright {

inline constexpr std::size_t kHostRow = 0;      // what the host issues
inline constexpr std::size_t kComputeRow = 1;   // what the stream computes, with all that ops convert and reduce inside
inline constexpr std::size_t kGatheredRow = 2;  // gathers of parameters that are used there
inline constexpr std::size_t kSentRow = 3;      // all that the communication stream begins there
inline constexpr std::size_t kPathRows = 4;

// By place and by row: ticks of a plan, or the share of paths that goes through it.
using PathTable = std::vector<std::array<double, kPathRows>>;

struct StepPlaces {
  std::size_t stretches = 1;  // of the forward, and of the backward

  [[nodiscard]] std::size_t count() const { return 2 * stretches + 2; }
  // Whether a path that is at `before` may go on at `row` of a place.
  [[nodiscard]] bool may_follow(std::size_t before, std::size_t row, std::size_t place) const {
    if (before == row) return true;
    if (row == kComputeRow) return before != kSentRow || place + 1 == count();
    return row == kSentRow && place > stretches;
  }
};

// What a plan takes on a path, or on the average of some.
MESHWRIGHT_API double length(const PathTable& plan, const PathTable& path);

MESHWRIGHT_API PathTable longest_path(const StepPlaces& places, const PathTable& plan);

// The average of paths on which the shortest of these plans is as long as can be, nearly: there is at least one.
MESHWRIGHT_API PathTable best_average(const StepPlaces& places, std::span<const PathTable> plans);

}  // namespace meshwright
