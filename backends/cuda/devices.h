// The devices of a run: streams, events, memory and communicators of each seat (links.h), made before the first step
// and kept until the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "driver.h"
#include "links.h"
#include "watchdog.h"

namespace meshwright::cuda {

// What a seat has on its device.
struct SeatDevice {
  Stream streams[2];  // the program's
  std::map<StreamNumber, Stream> links;
  std::vector<Event> events;
  std::vector<Event> filled, taken;  // by slot
  Event gathered;                    // where the streams of a graph part and come back
  StepGraph graph;                   // of a step; null: there is none
  std::byte* memory = nullptr;
  std::map<GroupKey, Communicator> communicators;

  [[nodiscard]] Stream stream(StreamNumber number) const {
    return number < kFirstLink ? streams[number] : links.at(number);
  }
};

// What becomes known to all processes of a run: what each gives, by process.
using GiveAll = std::function<std::vector<std::string>(const std::string& name, const std::string& own)>;

// Used by one thread, but for what belongs to a seat, which is its device's thread's.
class Devices {
 public:
  Devices(Driver& driver, Watchdog& watchdog) : driver_(driver), watchdog_(watchdog) {}
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  // Streams and kernels for the seats that are in this process. Errors: plugin_failed, "no device: ..." where there are
  // not as many; the driver's.
  Status open(std::vector<Seat> here);
  // From here on it is this seat's device that is set. Errors: the driver's.
  Status set(std::int64_t seat);
  // Those of all groups that seats here belong to. Errors: the driver's.
  Status make_communicators(const std::set<GroupKey>& groups);
  // The same where other seats are in other processes, each of which calls it with the groups that it knows of: all
  // learn of all, and the first seat of each makes its id. `process_of`: by seat. Errors: the driver's, of which the
  // others know nothing; of what another process gave.
  Status make_communicators(const std::set<GroupKey>& groups, const std::vector<std::int64_t>& process_of,
                            const GiveAll& give_all);
  // A seat's memory, as many events as its step has, and the streams of its links. Errors: the driver's; of too little
  // memory, with how much is needed.
  Status make_memory(std::int64_t seat, const RankStep& step, const std::string& what_is_large);

  // Kernels for so many chains (chain_source.h), on all devices that are here. Errors: the driver's.
  Status load_chains(const std::string& source, std::size_t count);

  // Until the end.
  void keep_graph(std::int64_t seat, StepGraph graph) { devices_[index(seat)].graph = graph; }

  [[nodiscard]] Driver& driver() const { return driver_; }
  [[nodiscard]] Watchdog& watchdog() const { return watchdog_; }
  [[nodiscard]] const SeatDevice& of(std::int64_t seat) const { return devices_[index(seat)]; }
  [[nodiscard]] const Seat& seat(std::int64_t seat) const { return here_[index(seat)]; }
  // Ends what this seat waits for in others: the run has stopped. No step can be taken any more.
  void abort(std::int64_t seat);
  [[nodiscard]] bool is_aborted(std::int64_t seat) const { return aborted_[index(seat)] != 0; }

 private:
  [[nodiscard]] bool is_here(std::int64_t seat) const { return index(seat) < here_.size(); }
  [[nodiscard]] std::size_t index(std::int64_t seat) const {
    return static_cast<std::size_t>(std::ranges::find(here_, seat, &Seat::number) - here_.begin());
  }
  Status make_communicator(const GroupKey& group, const UniqueId& id);

  Driver& driver_;
  Watchdog& watchdog_;
  std::vector<Seat> here_;
  std::vector<SeatDevice> devices_;  // by seat that is here
  std::vector<char> aborted_;        // likewise, each written by its own thread
};

}  // namespace meshwright::cuda
