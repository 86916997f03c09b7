// The order in which interleaved schedules go through chunks: microbatches go in groups, and a stage runs a group
// through all of its chunks before the next group. Megatron's groups have p microbatches, one for each stage; where p
// does not divide their number m, the groups are as even as can be and no smaller than p (one group if m < p), since a
// group that is smaller leaves stages without work at its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "meshwright/schedule.h"

namespace meshwright {

struct MicrobatchGroups {
  std::uint32_t largest = 0;
  std::vector<std::uint32_t>
      chunks;  // of each forward of a stage in its order; those of its backwards are the mirrored ones
};

inline MicrobatchGroups microbatch_groups(const ScheduleShape& shape) {
  const std::uint32_t count = std::max<std::uint32_t>(1, shape.microbatches / shape.stages);
  const std::uint32_t size = shape.microbatches / count, larger = shape.microbatches % count;
  MicrobatchGroups groups;
  groups.largest = size + (larger > 0 ? 1 : 0);
  groups.chunks.reserve(std::size_t{shape.chunks} * shape.microbatches);
  for (std::uint32_t group = 0; group < count; ++group) {
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      groups.chunks.insert(groups.chunks.end(), size + (group < larger ? 1 : 0), chunk);
    }
  }
  return groups;
}

}  // namespace meshwright
