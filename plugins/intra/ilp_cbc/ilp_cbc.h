// MAP's integer program (integer_solver.h), solved by CBC.
#pragma once

#include "integer_solver.h"

namespace meshwright {

class IlpCbc final : public IntraSolver {
 public:
  explicit IlpCbc(const IntegerOptions& options) : options_(options) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;

  IntegerOptions options_;
};

}  // namespace meshwright
