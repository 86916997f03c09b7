#include "files/memory_reader.h"

namespace meshwright::host {

namespace {

// More is a mistake, and sums of a few stay within 64 bits.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 58;

}  // namespace

MemoryOverheads read_overheads(const JsonPlace& place) {
  const auto bytes = [&](std::string_view key) { return place.at(key).integer(0, kMostBytes); };
  return {bytes("driver_bytes"),         bytes("context_bytes"),
          bytes("workspace_bytes"),      bytes("communicator_bytes"),
          bytes("block_bytes"),          bytes("small_segment_bytes"),
          bytes("medium_segment_bytes"), place.at("fragmentation").number(0, 1)};
}

MemoryAccount read_account(const JsonPlace& place, std::int64_t peak_bytes) {
  const auto bytes = [&](std::string_view key) { return place.at(key).integer(0, kMostBytes); };
  MemoryAccount account;
  account.program_bytes = bytes("program_bytes");
  account.rounding_bytes = bytes("rounding_bytes");
  account.fragmentation_bytes = bytes("fragmentation_bytes");
  account.driver_bytes = bytes("driver_bytes");
  account.context_bytes = bytes("context_bytes");
  account.workspace_bytes = bytes("workspace_bytes");
  account.communicators = place.at("communicators").integer(0);
  account.communicator_bytes = bytes("communicator_bytes");
  account.reserved_bytes = bytes("reserved_bytes");
  const std::int64_t total = bytes("total_bytes");
  if (place.failed()) return account;
  if (account.program_bytes != peak_bytes) {
    place.at("program_bytes")
        .fail("it is " + std::to_string(account.program_bytes) + ", and peak_bytes is " + std::to_string(peak_bytes) +
              "; they are the same figure");
  } else if (account.total_bytes() != total) {
    place.at("total_bytes")
        .fail("it is " + std::to_string(total) + ", and its parts add up to " + std::to_string(account.total_bytes()));
  }
  return account;
}

}  // namespace meshwright::host
