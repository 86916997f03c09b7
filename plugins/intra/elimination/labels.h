// The exact finish under a budget: a dynamic program over the join plan whose states carry every combination of cost
// and bytes that no other one beats (Pareto labels). A label is dropped when the relaxation shows that whatever
// completes it costs more than `most_cost`; so the answer is exact for all costs up to that.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "passes.h"
#include "relaxation.h"

namespace meshwright::elimination {

inline constexpr std::size_t kMostPoints = 4;  // points in time that labels can carry

struct LabelSearch {
  bool complete = false;                             // false: the meter ran out, and nothing is known
  std::optional<std::vector<std::uint32_t>> choice;  // of the least cost within the room, if that is at most most_cost
};

// `forward` and `backward` are the passes at `multipliers`, the latest on `passes`, of an exact plan.
LabelSearch search_labels(Passes& passes, const Forward& forward, const Backward& backward,
                          std::span<const MemoryPoint> points, std::span<const std::int64_t> room,
                          const Multipliers& multipliers, TickSum most_cost);

}  // namespace meshwright::elimination
