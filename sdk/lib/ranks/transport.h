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
  struct Task;  // one rank's part of one move

  static std::size_t to_index(std::int64_t rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] Box source_box(const Task& task, std::int64_t rank) const;
  void pull(const Task& task, const std::vector<std::int64_t>& from, bool accumulate);
  bool fetch(const Task& task);
  bool reduce_scatter(const Task& task);
  bool all_reduce(const Task& task);
  void keep_one(const Task& task, const Tensor& source) const;
  bool meet(const Task& task, int step);

  const Program& program_;
  Meeting& meeting_;
  std::optional<std::uint64_t> scatter_partials_;
  std::vector<Desk> desks_;
  const AmongRanks among_;
};

}  // namespace meshwright
