// The truth for small chains: Dijkstra's algorithm over all that memory can hold. It shares no code with the solvers,
// nor with the kernel's replay.
#pragma once

#include <cstdint>
#include <optional>

#include "meshwright/checkpoint.h"

namespace meshwright {

enum class ScheduleFamily : std::uint8_t {
  nested,  // what is kept is kept until its backward, and a forward that runs again starts at the last value that is
           // held
  persistent,  // what is kept is kept until its backward
  any,         // every operation of checkpoint.h wherever it is legal
};

// The least time of all schedules of the family whose peak is within the budget; nullopt if there is none. Of chains of
// up to 12 stages whose times add up to less than 2^62 ticks.
std::optional<std::int64_t> least_ticks_of_every_schedule(const Chain& chain, std::int64_t budget_bytes,
                                                          ScheduleFamily family);

}  // namespace meshwright
