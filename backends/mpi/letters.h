// What stages of a pipeline send to each other, as messages of MPI: from each rank that has elements to each that needs them, every element once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "handover.h"
#include "meshwright/program.h"
#include "meshwright/tensor.h"
#include "runtime.h"
#include "world.h"

namespace meshwright {

class Letters {
 public:
  explicit Letters(World& world) : world_(world) {}

  // Finds out who sends what to whom, once for all steps. Errors: bad_input for more messages than MPI has tags for, or a larger one than it can count.
  Status plan(const Stages& stages);

  // Sends a copy of this process' part, and does not wait.
  Status send(const Message& message, std::int64_t microbatch, const Tensor& part);

  // A message on its way here, until it is there.
  class Arriving {
   public:
    // True: all of it is there, and has been put into the result that it was asked for with.
    bool advance();

   private:
    friend class Letters;
    Arriving(World& world, std::size_t element_bytes, Tensor& result) : world_(world), element_bytes_(element_bytes), result_(result) {}
    World& world_;
    std::size_t element_bytes_;
    Tensor& result_;
    std::vector<const std::vector<HandedRun>*> runs_;  // by letter
    std::vector<std::vector<std::byte>> texts_;
    std::vector<MPI_Request> requests_;
  };
  // `result` is all zeros, and stays.
  Arriving receive(const Message& message, std::int64_t microbatch, Tensor& result);

  // Forgets what has been sent. Whether nothing is left.
  bool advance();

 private:
  struct Leg {
    int process = 0;  // at the other end
    std::vector<HandedRun> runs;
    std::size_t elements = 0;
  };
  struct Route {
    int number = 0;  // of the message, among all
    std::size_t element_bytes = 0;
    std::vector<Leg> out, in;  // of this process
  };
  struct Sent {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> text;
  };

  Status plan_route(const Stages& stages, const Message& message, const ShardedType& sent, const ShardedType& received, Route& route);
  [[nodiscard]] int tag(const Route& route, std::int64_t microbatch) const { return route.number * microbatches_ + static_cast<int>(microbatch); }

  World& world_;
  int microbatches_ = 1;
  std::map<Message, Route> routes_;
  std::list<Sent> sent_;
};

}  // namespace meshwright
