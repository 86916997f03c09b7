// What of a model runs again in a plan that follows a schedule of its chain (checkpoint.h).
//
// A plan of ours lets an op run again once, before its backward, and keeps what crosses the border of a block
// (recompute.h). So a schedule is followed as nearly as that allows: a stage that it runs more than twice runs twice, and
// the chain's value at a block's border is kept even where the schedule lets it go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/checkpoint.h"
#include "meshwright/linearize.h"
#include "meshwright/recompute.h"

namespace meshwright {

// By stage of `model`, the ops that make the chain's value behind it and nothing else that a plan could let go: they need
// not run again where that value is held. One that makes more does, for the rest of it: a maximum for its places, a dropout
// for its mask. `again`: all that may run again.
using ValueMakers = std::vector<std::vector<NodeId>>;
ValueMakers value_makers(const ModelChain& model, const Graph& graph, const Recomputation& again);

struct ScheduledOps {
  std::vector<bool> run_again;    // by node of the forward graph
  std::size_t stages = 0;         // that run again
  std::size_t more_than_twice = 0;  // of these
};

// The ops of stages that run more than once. Of such a stage the op that makes the chain's value behind it, one of
// `makers`, does not run again where the schedule holds that value from its first run on, of which its ticks know nothing.
// So values that it lets go are held all the same as long as they are no more than `spare_bytes`, those of the first
// stages first: by as much at most that raises its peak. `schedule` is one of `chain`, whose stages are those of `model`.
ScheduledOps ops_of_schedule(const ModelChain& model, const ValueMakers& makers, std::span<const ChainOperation> schedule,
                             const Chain& chain, std::int64_t spare_bytes);

}  // namespace meshwright
