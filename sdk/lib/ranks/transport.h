// The moves between ranks that are threads of one process (docs/backends.md): what a rank needs it fetches, box by box,
// straight from the buffers of the ranks that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meeting.h"
#include "meshwright/program.h"
#include "meshwright/tensor.h"
#include "move_part.h"

namespace meshwright {

// Ranks that meet others too, those of other stages: the first one's number there, and the numbers of what a step does.
struct AmongRanks {
  std::int64_t first = 0;
  std::vector<std::size_t> steps = {};  // empty: they are what they are
};

class Transport {
 public:
  // `scatter_partials`: a seed. keep_one then gives each coordinate a random share of the value, instead of all of it
  // to the first, so that an op that is not linear is found out.
  Transport(const Program& program, Meeting& meeting, std::optional<std::uint64_t> scatter_partials, AmongRanks among = {});

  // The part of a move, which stands at this place of what a step does, that falls to `rank`. False: the run has stopped. `result`
  // is all zeros. Thread-safe; each rank is one thread.
  Result<bool> move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result);

  // Bytes that this rank has fetched from others.
  [[nodiscard]] std::int64_t fetched_bytes(std::int64_t rank) const { return desks_[to_index(rank)].fetched; }

 private:
  // What the others see of a rank while it meets them.
  struct alignas(64) Desk {
    const std::byte* source = nullptr;
    std::byte* result = nullptr;
    std::int64_t fetched = 0;  // written by its own rank only
  };

  static std::size_t to_index(std::int64_t rank) { return static_cast<std::size_t>(rank); }
  bool fetch(const MovePart& part, std::size_t step);
  bool all_reduce(const MovePart& part, std::size_t step);
  bool meet(const MovePart& part, std::size_t at, int step);

  const Program& program_;
  Meeting& meeting_;
  std::optional<std::uint64_t> scatter_partials_;
  std::vector<Desk> desks_;
  const AmongRanks among_;
};

}  // namespace meshwright
