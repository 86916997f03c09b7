// The devices of a run: streams, events, memory and communicators of each rank, made before the first step and kept
// until the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "driver.h"

namespace meshwright::cuda {

// What a rank has on its device.
struct RankDevice {
  Stream streams[2];  // by meshwright::Stream
  std::vector<Event> events;
  std::byte* memory = nullptr;
  std::map<GroupKey, Communicator> communicators;

  [[nodiscard]] Stream stream(meshwright::Stream which) const {
    return streams[which == meshwright::Stream::compute ? 0 : 1];
  }
};

// Rank r is on device r of this machine. Used by one thread, but for what belongs to a rank, which is its thread's.
class Devices {
 public:
  explicit Devices(Driver& driver) : driver_(driver) {}
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  // Streams and kernels for so many ranks. Errors: plugin_failed, "no device: ..." where there are not as many; the
  // driver's.
  Status open(std::int64_t ranks);
  // From here on it is this rank's device that is set. Errors: the driver's.
  Status set(std::int64_t rank);
  // Errors: the driver's.
  Status make_communicators(const std::set<GroupKey>& groups);
  // A rank's memory, and as many events as its step has. Errors: the driver's; of too little memory, with how much is
  // needed.
  Status make_memory(std::int64_t rank, const RankStep& step, const std::string& what_is_large);

  [[nodiscard]] Driver& driver() const { return driver_; }
  [[nodiscard]] const RankDevice& of(std::int64_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  // Ends what this rank waits for in others: the run has stopped. No step can be taken any more.
  void abort(std::int64_t rank);
  [[nodiscard]] bool is_aborted(std::int64_t rank) const { return aborted_[static_cast<std::size_t>(rank)] != 0; }

 private:
  Status make_communicator(const GroupKey& group);

  Driver& driver_;
  std::vector<RankDevice> ranks_;
  std::vector<char> aborted_;  // by rank, each written by its own thread
};

}  // namespace meshwright::cuda
