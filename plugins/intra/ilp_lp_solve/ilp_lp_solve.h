// MAP's integer program (integer_solver.h), solved by lp_solve.
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
