// Chen et al. 2016, "Training deep nets with sublinear memory cost": the chain is cut into segments, of which the forward keeps the
// inputs alone, and each segment's forwards run once more before its backwards. Cuts are made as in their Algorithm 3: a segment is closed
// as soon as what it would save exceeds a share; every share of the whole, from one part to as many as there are stages, is tried.
// On equal stages the least memory is reached with about √n segments, and grows like √n.
#pragma once

#include "meshwright/checkpoint.h"

namespace meshwright {

class Chen final : public CheckpointSolver {
  // The fastest of these schedules that fits; of several the one with the lowest peak. `least_bytes` is the lowest peak of them
  // all. Optimal only if nothing runs twice.
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain, std::span<const std::int64_t> budgets) const override;
};

}  // namespace meshwright
