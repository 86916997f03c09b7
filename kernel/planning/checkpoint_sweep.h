// MAP's two solvers in two stages (arXiv 2302.02599, §5.3): the intra-op search under budgets B (1 + α)^n, n = 0 .. 9, of
// which each plan, as a chain of stages (linearize.h, plan_chain.h, followed_chain.h), goes to a solver of chains, which
// says what runs again so that it fits into B. The fastest of all is the answer ([search] checkpoint).
//
// A schedule is realized as schedule_ops.h says. Each plan is then lowered, simulated and held against the budget, as any
// plan is; a chain knows only about what its program holds, so the solver is asked again, for less where that is too
// much, for more where it is not, a few times. Then for much less, since steps overlap what a chain adds up.
#pragma once

#include <optional>
#include <string>

#include "meshwright/checkpoint.h"
#include "recompute_search.h"

namespace meshwright {

struct CheckpointSweep {
  const CheckpointSolver& solver;
  std::string name;  // its plugin's
  double alpha = 0;  // α, more than 0
};

// The best plan of the sweep, if it is better than `without`, that of the problem itself: by the simulated step, or the
// objective where there is none. If no plan is found, a search that says so, with the smallest that was seen. Nothing
// where no budget binds, or the model has no blocks that could run again. The bound is one for any schedule.
// Errors: bad_input where several microbatches are in flight at once, since a chain is of one; those of building, solving
// and lowering.
Result<std::optional<RecomputeSearch>> sweep_checkpoints(const FittedSolver& solver, const RecomputeWish& wish,
                                                         const CheckpointSweep& sweep, const FittedSearch& without);

}  // namespace meshwright
