// rotor with communication (MAP's Theorem 5.1, after Beaumont et al. 2019): the fastest schedule of a chain within a
// budget, by a dynamic program over segments and memory. As printed, MAP's equation 5 leaves u_fcomm out of C_ck and
// subtracts ω_a where C_all holds ω_ā; both are as they should be here.
//
// The family of schedules, and so what "optimal" is about: what is kept is kept until its backward, and a forward that
// runs again starts at the last value that is kept (segments.h). Where no gradient is larger than its value, no
// schedule that keeps what it once kept is faster (tested against all of them).
#pragma once

#include <cstdint>

#include "meshwright/checkpoint.h"

namespace meshwright {

class Rotor final : public CheckpointSolver {
 public:
  // Memory is counted in `slots` parts of what the budget leaves beside the chain's input, or in fewer if these round
  // less. Where all sizes are whole slots an answer is optimal, as it is if nothing runs twice. Else sizes are rounded
  // to the nearest, and of the schedules in the table the first is taken, from the most slots down, that fits the
  // budget in bytes: heuristic. If that loses more than a tenth of the slots, another table rounds up.
  // Time grows with stages³ · slots, memory is stages² · slots · 4 bytes for each table.
  explicit Rotor(std::int64_t slots) : slots_(slots) {}

 private:
  // `least_bytes` is proven: no schedule of the family needs less. Every budget from there on is met: where
  // slots are too coarse, by checkpoints in the middle of what does not fit.
  // Error: bad_input if the table would be too large, or the times.
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                 std::span<const std::int64_t> budgets) const override;

  std::int64_t slots_;
};

}  // namespace meshwright
