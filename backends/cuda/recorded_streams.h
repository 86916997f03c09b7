// The streams of all devices of a recording driver: what was asked for and is not done yet, and in which order it gets
// done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mail.h"
#include "meshwright/dtype.h"

namespace meshwright::cuda {

enum class JobKind : std::uint8_t { work, record, wait, all_reduce, all_gather, reduce_scatter, exchange };

// Of a send or a receive.
struct RecordedMessage {
  int peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

struct RecordedGroup;

// Of one rank: its part of a group.
struct RecordedCommunicator {
  RecordedGroup* group = nullptr;
  int rank = 0;
  bool aborted = false;
};

struct RecordedEvent {
  std::size_t number = 0;
  std::vector<bool> done;  // by record: whoever waits does so for the last one that was asked for by then
};

struct Job {
  JobKind kind = JobKind::work;
  std::function<bool()> run;  // of work; false: it touched what it may not
  RecordedEvent* event = nullptr;
  std::size_t record = 0;  // of the event, from 1; a wait for none is none
  RecordedCommunicator* communicator = nullptr;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;
  DType dtype = DType::float32;
  bool maximum = false;
  std::vector<RecordedMessage> sends, receives;
  // Where the others are in other processes: whether they have this one's part, and theirs, by rank of the group; of an
  // exchange, by what is received.
  bool is_posted = false;
  std::vector<std::optional<std::string>> arrived = {};
};

struct RecordedStream {
  int device = 0;
  std::size_t number = 0;
  std::deque<Job> jobs;
  bool failed = false;
};

struct RecordedGroup {
  std::vector<RecordedCommunicator*> members;  // by rank; null: it is in another process
  // Where each is in a process of its own (far_members.h):
  Mail* mail = nullptr;
  std::uint64_t channel = 0;
  std::vector<int> processes = {};  // by rank
};

// What a collective makes of what its ranks give, by rank: of a reduce-scatter for all of them.
std::vector<std::byte> combined(const Job& job, const std::vector<const std::byte*>& given);
// Of a rank's part: how many bytes it gives, and which of what is made it gets.
std::size_t given_bytes(const Job& job);
void take_own(const Job& job, const std::vector<std::byte>& made);

// Used by one thread at a time.
class RecordedStreams {
 public:
  explicit RecordedStreams(std::uint64_t seed) : random_(seed) {}

  RecordedStream& add(int device, std::size_t number) {
    return streams_.emplace_back(RecordedStream{device, number, {}, false});
  }
  // Lets the first job of one stream happen, drawn of those that can: a wait whose event was recorded, a collective
  // whose ranks are all there, and all else.
  void advance();

 private:
  bool is_ready(RecordedStream& stream);
  // Where a member's collective is the first job; null: it has not come there.
  RecordedStream* stream_at(const RecordedCommunicator* member);
  // All streams whose first jobs are one collective; of sends and receives those that hand something to each other,
  // through others too. Empty: not all are there.
  std::vector<RecordedStream*> together(RecordedStream& stream);
  void happen(RecordedStream& stream);

  std::deque<RecordedStream> streams_;
  std::uint64_t random_;
};

}  // namespace meshwright::cuda
