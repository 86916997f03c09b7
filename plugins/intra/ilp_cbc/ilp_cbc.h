// MAP's integer program (integer_solver.h), solved by CBC.
#pragma once

#include "meshwright/solver.h"

namespace meshwright {

class IlpCbc final : public IntraSolver {
 public:
  explicit IlpCbc(std::int64_t max_columns) : max_columns_(max_columns) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;

  std::int64_t max_columns_;
};

}  // namespace meshwright
