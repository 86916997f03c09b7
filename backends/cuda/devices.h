// The devices of a run: streams, events, memory and communicators of each rank, made before the first step and kept
// until the end.
#pragma once

#include <cstdint>
#include <functional>
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

// The ranks of a program that are in this process, each on a device of its own: the first one on `device`.
struct RanksHere {
  std::int64_t first = 0, count = 1;
  int device = 0;
};

// What becomes known to all processes that a program runs on: what each gives, by process.
using GiveAll = std::function<std::vector<std::string>(const std::string& name, const std::string& own)>;

// Used by one thread, but for what belongs to a rank, which is its thread's.
class Devices {
 public:
  explicit Devices(Driver& driver) : driver_(driver) {}
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  // Streams and kernels for these ranks. Errors: plugin_failed, "no device: ..." where there are not as many; the
  // driver's.
  Status open(const RanksHere& here);
  // From here on it is this rank's device that is set. Errors: the driver's.
  Status set(std::int64_t rank);
  // Those of all groups that ranks here belong to. Errors: the driver's.
  Status make_communicators(const std::set<GroupKey>& groups);
  // The same where other ranks are in other processes, each of which calls it with the groups that it knows of: all
  // learn of all, and the first rank of each makes its id. Errors: the driver's, of which the others know nothing; of
  // what another process gave.
  Status make_communicators(const std::set<GroupKey>& groups, const GiveAll& give_all);
  // A rank's memory, and as many events as its step has. Errors: the driver's; of too little memory, with how much is
  // needed.
  Status make_memory(std::int64_t rank, const RankStep& step, const std::string& what_is_large);

  [[nodiscard]] Driver& driver() const { return driver_; }
  [[nodiscard]] const RankDevice& of(std::int64_t rank) const { return ranks_[index(rank)]; }
  // Its number on this machine.
  [[nodiscard]] int device_of(std::int64_t rank) const { return here_.device + static_cast<int>(index(rank)); }
  // Ends what this rank waits for in others: the run has stopped. No step can be taken any more.
  void abort(std::int64_t rank);
  [[nodiscard]] bool is_aborted(std::int64_t rank) const { return aborted_[index(rank)] != 0; }

 private:
  [[nodiscard]] bool is_here(std::int64_t rank) const {
    return rank >= here_.first && rank < here_.first + here_.count;
  }
  [[nodiscard]] std::size_t index(std::int64_t rank) const { return static_cast<std::size_t>(rank - here_.first); }
  Status make_communicator(const GroupKey& group, const UniqueId& id);

  Driver& driver_;
  RanksHere here_;
  std::vector<RankDevice> ranks_;
  std::vector<char> aborted_;  // by rank, each written by its own thread
};

}  // namespace meshwright::cuda
