// Where the ranks of one process wait for each other, and where it is found out that they wait in vain.
//
// A run is stopped by its first failure in program order: no rank begins an instruction behind the first one that
// failed, and all run up to it. So the same program fails with the same error whatever the threads do, and nobody waits
// for a rank that has stopped: when every rank either waits or has left, what is waited for never comes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

// Thread-safe. Each rank is one thread, and calls `leave` last.
class Meeting {
 public:
  struct Place {
    std::size_t instruction = 0;
    int step = 0;                     // an instruction may meet several times
    std::vector<std::int64_t> ranks;  // who meets, ascending
    bool operator==(const Place&) const = default;
  };

  // `describe` says what an instruction is, for errors; called by one rank at a time.
  Meeting(std::int64_t ranks, std::function<std::string(std::size_t)> describe);

  // Whether a rank may begin this instruction, or shall leave.
  [[nodiscard]] bool goes_on(std::size_t instruction) const;
  // Returns when all of place.ranks have come to the same place; what they wrote before is then visible to all of them.
  // False: they never will, leave. Who has met at step 0 of an instruction meets at its other steps too, since the
  // others may be reading what it holds.
  [[nodiscard]] bool wait(std::int64_t rank, const Place& place);
  // Returns when `ready` says so, which is asked under the lock, and again after each `change`. False: it never will, leave. `place.ranks` is the rank itself.
  [[nodiscard]] bool wait_until(std::int64_t rank, const Place& place, const std::function<bool()>& ready);
  // Does something that others may wait for, under the lock.
  void change(const std::function<void()>& what);
  // The rank can't do this instruction.
  void fail(std::int64_t rank, std::size_t instruction, Error error);
  // The rank comes to no place any more.
  void leave(std::int64_t rank);
  // After all ranks have left: the first failure in program order, of the lowest rank.
  [[nodiscard]] std::optional<Error> failure() const;

 private:
  enum class State : std::uint8_t { runs, waits, met, dismissed, left };
  struct Member {
    State state = State::runs;
    const Place* place = nullptr;  // where it waits
    const std::function<bool()>* ready = nullptr;  // what for, if not for others to come to the same place
    std::condition_variable changed;
  };
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] bool stands_at(std::int64_t rank, const Place& place) const;
  void release(Member& member, State state);
  void dismiss(Member& member);
  void record(std::int64_t rank, std::size_t instruction, Error error);
  void check_progress();
  [[nodiscard]] std::string explain(const Place& place) const;

  std::function<std::string(std::size_t)> describe_;
  mutable std::mutex mutex_;
  std::deque<Member> members_;
  std::int64_t running_;
  std::atomic<std::size_t> failed_instruction_ = kNever;  // written under the lock
  std::int64_t failed_rank_ = 0;  // the number of ranks, if nobody came to a place
  std::optional<Error> failure_;
};

}  // namespace meshwright
