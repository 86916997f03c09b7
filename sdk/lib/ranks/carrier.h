// What carries values between the ranks of a step: memory that threads share (run_ranks.cpp), or messages between processes (backends/mpi).
#pragma once

#include <cstdint>
#include <functional>

#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "side_stream.h"

namespace meshwright {

// Of one stage. What ranks that are threads share of it is thread-safe. `step` is the place of an instruction among what a step of the stage does.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // The part of a move that falls to `rank`. `result` is all zeros. False: the run has stopped.
  virtual Result<bool> move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) = 0;
  // What the rank has of a value goes to another stage: a copy of it, so that the caller may go on. The value lies as `type` says.
  virtual Status send(std::int64_t rank, std::int64_t microbatch, const Message& message, const ShardedType& type, const Tensor& part) = 0;
  // The other way. `result` is all zeros. False: the run has stopped.
  virtual Result<bool> receive(std::int64_t rank, std::size_t step, std::int64_t microbatch, const Message& message, const ShardedType& type, Tensor& result) = 0;

  // Whether the run goes on: a rank that waits for something outside of the carrier asks.
  [[nodiscard]] virtual bool goes_on() const { return true; }

  // Where the communication stream of a rank runs beside its computing. Null: everything is done in the order of the program, at once.
  virtual SideStream* side(std::int64_t /*rank*/) { return nullptr; }
  // Lets that stream, and what was sent, go on as far as they can without waiting. Errors: theirs.
  virtual Status progress(std::int64_t /*rank*/) { return Done{}; }
  // Returns when it is so, and lets all that is under way go on meanwhile. Errors: those of `progress`.
  virtual Status wait_until(std::int64_t /*rank*/, const std::function<bool()>& is_so) { return is_so() ? Status(Done{}) : internal_error("nothing goes on that could be waited for"); }
  // As `move`, beside the computing: what is to be called until it is done. `source` and `result` stay until then.
  virtual Result<SideStream::Task> begin_move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) {
    return SideStream::Task([this, rank, step, &instruction, &source, &result] { return move(rank, step, instruction, source, result); });
  }
};

}  // namespace meshwright
