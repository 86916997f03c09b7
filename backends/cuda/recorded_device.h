// What a recording driver knows of a device, and of a thread's open group of sends and receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recorded_streams.h"
#include "trace.h"

namespace meshwright::cuda {

struct RecordedDevice {
  std::map<std::byte*, std::vector<std::byte>> memory;
  std::vector<TraceEntry> trace;
  std::size_t streams = 0, events = 0;
  std::int64_t waits = 0;
  bool has_kernels = false;
  std::size_t chains = 0;  // that are compiled
  std::string wrong;       // what a kernel did that its launch does not say
};

// Between ncclGroupStart and ncclGroupEnd, of one thread.
struct OpenGroup {
  int depth = 0;
  std::map<std::pair<RecordedCommunicator*, RecordedStream*>, Job> exchanges;
};

}  // namespace meshwright::cuda
