// What one device's memory holds while a plan runs, by name: the tensors of its program, and all that the files of the
// device and of the cluster say is there besides (decision 035). All figures are bytes of one device; they add up.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/export.h"

namespace meshwright {

struct MemoryAccount {
  std::int64_t program_bytes = 0;        // the peak of the program's tensors, as simulate predicts and verify measures
  std::int64_t rounding_bytes = 0;       // what the allocator rounds up of them
  std::int64_t fragmentation_bytes = 0;  // what lies idle between them
  std::int64_t driver_bytes = 0;
  std::int64_t context_bytes = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t communicators = 0;       // a number, not bytes
  std::int64_t communicator_bytes = 0;  // of all of them
  std::int64_t reserved_bytes = 0;      // the cluster's

  [[nodiscard]] MESHWRIGHT_API std::int64_t total_bytes() const;
  bool operator==(const MemoryAccount&) const = default;
};

// What the allocator takes for tensors of these sizes, all there at once, beyond their sum.
MESHWRIGHT_API std::int64_t rounding_bytes(const MemoryOverheads& overheads, const std::vector<std::int64_t>& tensors);

// `tensors`: the sizes of those that are there at the peak. Their sum is the program's bytes.
MESHWRIGHT_API MemoryAccount memory_account(const Cluster& cluster, const std::vector<std::int64_t>& tensors,
                                            std::int64_t communicators);

// No program whose peak is larger fits, however little it communicates and however well its tensors fill their blocks.
// At most 0 if the device's own overheads fill its memory.
MESHWRIGHT_API std::int64_t largest_peak_bytes(const Cluster& cluster);

}  // namespace meshwright
