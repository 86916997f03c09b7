// MAP's integer program (equation 1, marginal_program.h), solved by lp_solve. lp_solve computes in doubles, so nothing
// that it claims is taken at its word: choices are evaluated in ticks, and its bounds are lowered by more than its
// tolerances. `optimal` is said only where the bound that is left rounds up to the choice's cost; on costs above about
// 10^8 ticks a proof by lp_solve may thus read as `bounded` with a gap of a few ticks.
#pragma once

#include "meshwright/solver.h"

namespace meshwright {

class IlpLpSolve final : public IntraSolver {
 public:
  explicit IlpLpSolve(std::int64_t max_columns) : max_columns_(max_columns) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;

  std::int64_t max_columns_;
};

}  // namespace meshwright
