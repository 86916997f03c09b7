#include "trace.h"

#include <algorithm>
#include <map>

namespace meshwright::cuda {

namespace {

// By stream, how many of its entries are known to be done before something begins.
using Clock = std::map<std::size_t, std::size_t>;

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, count] : other) clock[stream] = std::max(clock[stream], count);
}

// An entry that reads or writes: its number on its stream, from 1, and what is done before it.
struct Traced {
  const TraceEntry* entry = nullptr;
  std::size_t number = 0;
  Clock before;
};

}  // namespace

Status check_races(const std::vector<TraceEntry>& trace) {
  std::map<std::size_t, Clock> clocks;   // by stream
  std::map<std::size_t, Clock> records;  // by event, as it was recorded last
  Clock host;
  std::vector<Traced> works;
  for (const TraceEntry& entry : trace) {
    Clock& clock = clocks[entry.stream];
    join(clock, host);
    switch (entry.kind) {
      case TraceKind::record:
        records[entry.event] = clock;
        break;
      case TraceKind::wait:
        join(clock, records[entry.event]);
        break;
      case TraceKind::joined:
        join(host, clock);
        break;
      case TraceKind::work: {
        Traced work{&entry, clock[entry.stream] + 1, clock};
        for (const Traced& earlier : works) {
          const auto known = work.before.find(earlier.entry->stream);
          const bool follows = known != work.before.end() && known->second >= earlier.number;
          if (follows || !conflict(*earlier.entry, entry)) continue;
          return internal_error("'" + earlier.entry->what + "' on stream " + std::to_string(earlier.entry->stream) +
                                " and '" + entry.what + "' on stream " + std::to_string(entry.stream) +
                                " touch the same memory, and neither waits for the other");
        }
        clock[entry.stream] = work.number;
        works.push_back(std::move(work));
        break;
      }
    }
  }
  return Done{};
}

}  // namespace meshwright::cuda
