// The exact solver: bucket elimination, with a Lagrangian and Pareto labels for the budget (budgeted.h). `optimal` is
// said only when it is proven. Where the graph is too wide for the tables it gives a bound and a choice instead.
#pragma once

#include "meshwright/solver.h"

namespace meshwright {

class Elimination final : public IntraSolver {
 public:
  explicit Elimination(std::int64_t max_table_entries) : max_table_entries_(max_table_entries) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;

  std::int64_t max_table_entries_;
};

}  // namespace meshwright
