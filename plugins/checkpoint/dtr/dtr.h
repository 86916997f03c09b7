// Kirisame et al. 2021, "Dynamic tensor rematerialization": a step runs as it comes, each forward keeping all; whenever
// what is next does not fit, what is cheapest to make again, for its size and for how long nobody read it, is let go;
// what is missing is made again when it is read. It decides online: nothing is known of what comes. Here it runs once,
// on the chain, and what it did is the schedule.
#pragma once

#include "meshwright/checkpoint.h"

namespace meshwright {

class Dtr final : public CheckpointSolver {
  // What can be let go is a value between stages, and what a stage saved besides. Of a value the cost to make it again
  // is of its forward and of all forwards beside it whose values are missing too (the paper's evicted neighbourhood,
  // e*). Optimal only if nothing runs twice. `least_bytes` is where bisection ends between the budget and that of
  // keeping everything: one byte less is not met, though far less might be, since greedy choices are not better with
  // more memory. A larger budget is never answered by a slower schedule than a smaller one.
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                 std::span<const std::int64_t> budgets) const override;
};

}  // namespace meshwright
