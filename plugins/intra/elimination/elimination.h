// The exact solver: bucket elimination, with a Lagrangian and Pareto labels for the budget (budgeted.h). `optimal` is
// said only when it is proven. Where the graph is too wide for the tables, or the labels are too many, the space is
// bounded and searched (wide.h), and finished by elimination when enough of it is excluded.
#pragma once

#include "meshwright/solver.h"

namespace meshwright {

class Elimination final : public IntraSolver {
 public:
  explicit Elimination(std::int64_t max_table_entries, bool two_threads = false, bool memo = true)
      : max_table_entries_(max_table_entries), two_threads_(two_threads), memo_(memo) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;
  Result<LeastCosts> do_least_costs(const StrategySpace& space, const SearchLimits& limits) const override;

  std::int64_t max_table_entries_;
  bool two_threads_;
  bool memo_;
};

}  // namespace meshwright
