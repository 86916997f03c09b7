// What was asked of one device's streams, in the order in which it was asked, and the proof that nothing of it races.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "driver.h"

namespace meshwright::cuda {

enum class TraceKind : std::uint8_t {
  work,    // a launch, a copy, a collective: what reads or writes
  record,  // of an event
  wait,    // for the event's last record
  joined,  // the host has seen that the stream is done
};

struct TraceEntry {
  TraceKind kind = TraceKind::work;
  std::size_t stream = 0;
  std::size_t event = 0;
  std::string what;  // of work: "copy", "ncclAllReduce"
  std::vector<Range> reads, writes;
};

// Happens-before: what is on one stream follows each other; what stands behind a wait follows all that stood before the
// record; what is asked for when the host has seen a stream done follows all that was on it. Errors: internal, naming
// two that touch the same bytes, one of which writes them, and neither follows the other.
Status check_races(const std::vector<TraceEntry>& trace);

}  // namespace meshwright::cuda
