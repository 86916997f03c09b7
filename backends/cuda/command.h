// What a rank asks of its device in a step, fixed before the first one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "driver.h"
#include "meshwright/program.h"
#include "seen.h"

namespace meshwright::cuda {

// A stream of a seat: of the program's two, or of a link (links.h), which has one of its own at each end.
using StreamNumber = std::size_t;
inline constexpr StreamNumber kCompute = 0, kCommunication = 1, kFirstLink = 2;

// Seats (links.h) that communicate on a stream: a communicator of their own, since what is on one stream must not wait
// for the other.
struct GroupKey {
  StreamNumber stream = kCompute;
  std::vector<std::int64_t> seats;  // ascending
  auto operator<=>(const GroupKey&) const = default;
};

struct Fill {
  std::byte* to = nullptr;
  std::size_t bytes = 0;  // that become zero
};

// The optimizer's step of a parameter, with numbers that the host puts there before each step (`RankStep::numbers`).
struct Optimize {
  std::uint32_t parameter = kNoId;
  Launch launch;
  Seen gradient, updated;  // the latter: as precise as it is kept
};

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter };

struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupKey group;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;  // as of the driver's function
  DType dtype = DType::float32;
  bool maximum = false;
};

// Sends and receives that are one.
struct Exchange {
  struct Part {
    int peer = 0;  // in the group
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  GroupKey group;
  std::vector<Part> sends, receives;
};

// An event of the seat, by its number.
struct Record {
  std::size_t event = 0;
};
struct Await {
  std::size_t event = 0;
};

// Of what goes from one seat to another one of the same device: it lies in the sender's slot, or was taken from there.
struct SlotEvent {
  std::int64_t seat = 0;  // the sender's
  std::size_t slot = 0;
  bool is_taken = false;
  bool records = false;  // else it is waited for
};

struct Command {
  using What = std::variant<Launch, Product, DnnCall, Fill, Optimize, Collective, Exchange, Record, Await, SlotEvent>;
  StreamNumber stream = kCompute;
  What what;
};

// Where the parts of a seat's memory lie in the one block that it has.
struct Block {
  std::byte* base = nullptr;
  std::size_t arena_bytes = 0;
  std::size_t state_bytes = 0;            // what the optimizer keeps
  std::size_t constant_bytes = 0;         // results of ops that read nothing
  std::size_t beside_bytes = 0;           // what gradients are spared: kept beside values as long as these are there
  std::size_t scratch_bytes[2] = {0, 0};  // by stream: what an instruction copies for its own use
  std::vector<std::size_t> slot_bytes;    // what is on its way to other stages

  // For who wants sizes alone: addresses that nothing is read from, in parts that have room for anything.
  static Block nowhere() {
    constexpr std::size_t kRoom = std::size_t{1} << 48U;
    return {reinterpret_cast<std::byte*>(kRoom), kRoom, kRoom, kRoom, kRoom, {kRoom, kRoom}, {}};
  }

  [[nodiscard]] std::byte* states() const { return base + arena_bytes; }
  [[nodiscard]] std::byte* constants() const { return states() + state_bytes; }
  [[nodiscard]] std::byte* beside() const { return constants() + constant_bytes; }
  [[nodiscard]] std::byte* scratch(StreamNumber stream) const {
    return beside() + beside_bytes + (stream == kCompute ? 0 : scratch_bytes[0]);
  }
  // `slot_bytes` may be unknown, empty.
  [[nodiscard]] std::byte* slot(std::size_t number) const {
    return scratch(kCommunication) + scratch_bytes[1] + bytes_of_slots(std::min(number, slot_bytes.size()));
  }
  [[nodiscard]] std::size_t bytes_of_slots(std::size_t count) const {
    return std::accumulate(slot_bytes.begin(), slot_bytes.begin() + static_cast<std::ptrdiff_t>(count), std::size_t{0});
  }
  [[nodiscard]] std::size_t bytes() const {
    return arena_bytes + state_bytes + constant_bytes + beside_bytes + scratch_bytes[0] + scratch_bytes[1] +
           bytes_of_slots(slot_bytes.size());
  }
};

// Where a value lies without gaps when the step has ended, and what brings it there.
struct Handed {
  std::vector<Command> commands;
  Seen seen;
};

struct RankStep {
  std::vector<std::vector<Command>> commands;  // by place of the steps
  std::vector<Command> closing;                // parameters go where the next step finds them
  std::map<std::pair<ProgramValueId, std::int64_t>, Handed>
      handed;  // outputs, and parameters as they were updated, by value and microbatch
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> constants;  // by place among them
  std::size_t numbers = 0;  // OptimizerNumbers of each parameter, at this place among the constants
  // Words at this place among the constants, other than 0 where an index was outside of what it names: by whose, a
  // place of the steps.
  std::size_t fault_words = 0;
  std::vector<std::size_t> faults;
  std::vector<std::uint32_t> updated;  // parameters that the optimizer takes a step of
  std::size_t events = 0;
  std::set<StreamNumber> links;  // that it sends or receives by
  Block block;
  bool shares_device = false;                         // with other stages
  std::int64_t device_peak_bytes = 0;                 // of all stages that share the device; 0: there are no others
  std::int64_t received_bytes = 0;                    // from other ranks
  std::int64_t peak_bytes = 0, peak_instruction = 0;  // as the program counts: without constants and scratch
};

}  // namespace meshwright::cuda
