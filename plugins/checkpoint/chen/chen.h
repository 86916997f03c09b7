// Chen et al. 2016, "Training deep nets with sublinear memory cost": the chain is cut into segments, of which the
// forward keeps the inputs alone, and each segment's forwards run once more before its backwards. All stages save in
// equal shares by segment, as nearly as cuts between stages allow; every number of shares, from one to as many as there
// are stages, is tried. (Their Algorithm 3 closes a segment as soon as it saves more than a share, which leaves next to
// nothing for the last one, the only one that does not run again.) On equal stages the least memory is reached with
// about √n segments, and grows like √n.
#pragma once

#include "meshwright/checkpoint.h"

namespace meshwright {

class Chen final : public CheckpointSolver {
  // The fastest of these schedules that fits; of several the one with the lowest peak. `least_bytes` is the lowest peak
  // of them all. Optimal only if nothing runs twice.
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                 std::span<const std::int64_t> budgets) const override;
};

}  // namespace meshwright
