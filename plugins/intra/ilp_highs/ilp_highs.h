// MAP's integer program (integer_solver.h), solved by HiGHS.
#pragma once

#include "integer_solver.h"

namespace meshwright {

class IlpHighs final : public IntraSolver {
 public:
  explicit IlpHighs(const IntegerOptions& options) : options_(options) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;

  IntegerOptions options_;
};

}  // namespace meshwright
