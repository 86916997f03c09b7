// How the ranks of a run are told apart, and what the stages of a pipeline hand to each other. Each message has a link:
// a communicator of all ranks of both stages, and a stream at each end, since what goes one way must not wait for what
// goes the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "handover.h"
#include "meshwright/program.h"
#include "meshwright/shard.h"
#include "meshwright/stages.h"

namespace meshwright::cuda {

// A rank of a stage, or of a whole model. Where stages share devices, a device has a seat for each of them.
struct Seat {
  std::int64_t number = 0;  // among all of the run; those of a stage follow each other
  int device = 0;           // of this machine
  std::string name;         // "rank 3"; "stage 1, rank 3"
};

// What a rank of the receiving stage gets of one of the sending stage.
struct Delivery {
  // Where both see the value as a product of the same atoms: what each has, and what goes over.
  Box held, wanted, shared;
  // Where they do not.
  std::vector<HandedRun> runs;
  std::int64_t elements = 0;
};

class Links {
 public:
  // `programs`: of all stages, which outlive this; a whole model is one. `group_of`: by stage, of devices. Errors:
  // bad_input for microbatches that arrive in another order than they are sent in.
  static Result<Links> make(std::vector<const Program*> programs, std::vector<std::uint32_t> group_of,
                            const JointOrder& order);

  [[nodiscard]] std::int64_t seat(std::size_t stage, std::int64_t rank) const { return first_[stage] + rank; }
  [[nodiscard]] std::string name(std::size_t stage, std::int64_t rank) const;

  // Whether both stages are on the same devices. Then the receiving seats alone have a link: each gets from the seat
  // beside it what that has, and the rest from the others' devices, which hand it on.
  [[nodiscard]] bool stays(const Message& message) const { return group_of_[message.from] == group_of_[message.to]; }
  // What a message goes by: its number is that of its link's streams.
  [[nodiscard]] GroupKey group(const Message& message) const;
  // Where a sender keeps it until it has arrived: among the slots of its stage. Whatever was in a slot before has been
  // received at that place of the order of all stages, so that to wait for it is not to wait for ever.
  [[nodiscard]] std::size_t slot(const Message& message, std::int64_t microbatch) const;
  // By rank of the receiving stage, what a rank of the sending one gives.
  [[nodiscard]] std::vector<Delivery> given(const Message& message, std::int64_t rank) const;
  // By rank of the sending stage, what a rank of the receiving one gets.
  [[nodiscard]] std::vector<Delivery> gotten(const Message& message, std::int64_t rank) const;

 private:
  struct Link {
    ProgramValueId sent = kNoId, received = kNoId;
    std::vector<std::pair<std::int64_t, std::size_t>> sends, receives;  // microbatches, by place in the order of all
    std::map<std::int64_t, std::size_t> slots;                          // by microbatch
  };

  void find_ends(const JointOrder& order);
  Status give_slots();
  [[nodiscard]] const Link& link(const Message& message) const { return links_.at(message); }

  std::vector<const Program*> programs_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::int64_t> first_;  // seat of each stage's first rank
  std::map<Message, Link> links_;
};

}  // namespace meshwright::cuda
