#include "meshwright/memory_account.h"

#include <numeric>

namespace meshwright {

namespace {

// A size of 0 rounds nothing.
std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return unit <= 0 ? bytes : (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::int64_t MemoryAccount::total_bytes() const {
  return program_bytes + rounding_bytes + fragmentation_bytes + driver_bytes + context_bytes + workspace_bytes +
         communicator_bytes + reserved_bytes;
}

std::int64_t rounding_bytes(const MemoryOverheads& overheads, const std::vector<std::int64_t>& tensors) {
  std::int64_t asked = 0, small = 0, medium = 0, large = 0;
  for (const std::int64_t bytes : tensors) {
    const std::int64_t block = round_up(bytes, overheads.block_bytes);
    asked += bytes;
    if (block <= overheads.small_segment_bytes / 2)
      small += block;
    else if (block < overheads.medium_segment_bytes / 2)
      medium += block;
    else
      large += round_up(block, overheads.small_segment_bytes);
  }
  return round_up(small, overheads.small_segment_bytes) + round_up(medium, overheads.medium_segment_bytes) + large -
         asked;
}

MemoryAccount memory_account(const Cluster& cluster, const std::vector<std::int64_t>& tensors,
                             std::int64_t communicators) {
  const MemoryOverheads& overheads = cluster.device.overheads;
  MemoryAccount account;
  account.program_bytes = std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
  account.rounding_bytes = rounding_bytes(overheads, tensors);
  const std::int64_t given_out = account.program_bytes + account.rounding_bytes;
  account.fragmentation_bytes = static_cast<std::int64_t>(overheads.fragmentation * static_cast<double>(given_out));
  account.driver_bytes = overheads.driver_bytes;
  account.context_bytes = overheads.context_bytes;
  account.workspace_bytes = overheads.workspace_bytes;
  account.communicators = communicators;
  account.communicator_bytes = communicators * overheads.communicator_bytes;
  account.reserved_bytes = cluster.reserved_bytes;
  return account;
}

std::int64_t largest_peak_bytes(const Cluster& cluster) {
  const MemoryOverheads& overheads = cluster.device.overheads;
  const std::int64_t rest = cluster.device.memory_bytes - cluster.reserved_bytes - overheads.driver_bytes -
                            overheads.context_bytes - overheads.workspace_bytes;
  if (overheads.fragmentation <= 0) return rest;
  // One byte more, since the share that is fragmented is rounded down.
  return rest <= 0 ? rest : static_cast<std::int64_t>(static_cast<double>(rest) / (1 + overheads.fragmentation)) + 1;
}

}  // namespace meshwright
