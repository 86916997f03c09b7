// The moves of a program as collectives of MPI. A rank gets just what it lacks, and sums are added in the order of the ranks, so that they have the bits that they
// have on ranks which are threads (sdk/lib/ranks/transport.h): an all-gather is MPI_Iallgatherv; an all-to-all, a permute, a slice and a reduce-scatter are
// MPI_Ialltoallv, the last with the sum behind it; an all-reduce is both, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "meshwright/program.h"
#include "move_part.h"
#include "world.h"

namespace meshwright {

// What this process sends and gets in one move: found once, the same in every microbatch and step.
class TransferPlan {
 public:
  // `first`: the process of the mesh's rank 0. All ranks of the mesh make it, for the program's moves in their order. Errors: those of move_part; bad_input for more
  // bytes at once than MPI can count.
  static Result<TransferPlan> make(const Program& program, const Instruction& instruction, std::int64_t rank, std::int64_t first, World& world);

  [[nodiscard]] bool needs_others() const { return comm_ != MPI_COMM_NULL; }
  // Of a move that needs no others: all of it. `result` is all zeros.
  void move_here(const Tensor& source, Tensor& result) const;

 private:
  friend class Transfer;
  explicit TransferPlan(MovePart part) : part_(std::move(part)) {}

  Status plan_pieces();
  Status plan_segments();
  Status check_size(std::int64_t bytes) const;
  [[nodiscard]] std::int64_t bytes_of(const Box& box) const { return box.elements() * static_cast<std::int64_t>(part_.element_bytes); }

  MovePart part_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::size_t self_ = 0;                    // in the group
  bool gathers_ = false;                    // all that each member holds goes to all
  std::vector<Piece> pieces_;               // what this rank takes
  std::vector<std::size_t> senders_;        // by piece: the member that it comes from
  std::vector<std::vector<Piece>> sends_;   // by member: what it takes of what is held here
  // By member, in bytes: of pieces, what is sent and what comes; of an all-reduce, the segments, and what comes of this rank's own.
  std::vector<int> send_counts_, send_offsets_, receive_counts_, receive_offsets_;
  std::vector<int> to_others_;  // of an all-reduce: the segments but this rank's own
};

// A move that is under way. `source` and `result`, all zeros, stay until it is done.
class Transfer {
 public:
  Transfer(const TransferPlan& plan, World& world, const Tensor& source, Tensor& result);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Goes on as far as it can without waiting. True: done.
  bool advance();
  // From other ranks, when it is done.
  [[nodiscard]] std::int64_t received_bytes() const { return received_; }

 private:
  void begin_pieces();
  void begin_segments();
  void take_pieces();
  void add_segments();

  const TransferPlan& plan_;
  World& world_;
  const std::byte* source_;
  std::byte* result_;
  std::vector<std::byte> outgoing_, incoming_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::function<void()> then_;  // what is to be done when the request is
  bool begun_ = false;
  std::int64_t received_ = 0;
};

}  // namespace meshwright
