// What ranks of one stage of a pipeline send to those of another one, all of them threads of one process. Who sends leaves a copy and goes
// on; who receives waits until all ranks of the other stage have sent theirs, and takes its part from whoever has it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "meeting.h"
#include "meshwright/program.h"
#include "meshwright/tensor.h"

namespace meshwright {

// Thread-safe; each rank is one thread.
class Post {
 public:
  // `programs`: of all stages.
  Post(std::vector<const Program*> programs, Meeting& meeting) : programs_(std::move(programs)), meeting_(meeting) {}

  // A rank's part of a value, which lies as `type` says. `rank` is its number in its stage.
  void send(const Message& message, std::int64_t microbatch, std::int64_t rank, const ShardedType& type, const Tensor& part);
  // The other way: `result` has the shape of the rank's part, and is all zeros. `place` is where the rank waits, `meeting_rank` its number there. False: the
  // run has stopped.
  bool receive(const Message& message, std::int64_t microbatch, std::int64_t rank, const ShardedType& type, std::int64_t meeting_rank, const Meeting::Place& place, Tensor& result);

 private:
  struct Parcel {
    std::map<std::int64_t, std::pair<ShardedType, Tensor>> parts;  // by rank
    std::int64_t taken = 0;  // by so many ranks
  };
  using Key = std::pair<Message, std::int64_t>;  // with the microbatch

  [[nodiscard]] std::int64_t devices(std::uint32_t stage) const { return programs_[stage]->mesh.devices(); }

  const std::vector<const Program*> programs_;
  Meeting& meeting_;
  std::map<Key, Parcel> parcels_;  // under the meeting's lock
};

}  // namespace meshwright
