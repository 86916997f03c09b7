// A StrategySpace as a linear program: MAP's equation 1, with edges by marginal constraints (DESIGN §6):
//
//   minimize  Σ_n Σ_i c_ni s_ni + Σ_(a,b) Σ_ij c_ij e_ij
//   Σ_i s_ni = 1     Σ_j e_ij = s_ai     Σ_i e_ij = s_bj     s binary, e ≥ 0
//   Σ_n Σ_i bytes_ni(t) s_ni ≤ budget - fixed     for each point in time t that can bind
//
// Forbidden entries have no column. Least entries are taken off costs, and what is left is scaled by a power of two, so
// that numbers are near 1 and still exact (up to 2^53).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "linear_program.h"
#include "meshwright/strategy_space.h"

namespace meshwright {

struct MarginalProgram {
  LinearProgram program;
  bool infeasible = false;                         // a node or an edge allows nothing
  std::vector<std::vector<std::int64_t>> columns;  // of node and strategy; -1 where it is forbidden
  TickSum constant = 0;                            // ticks that were taken off
  double ticks_per_unit = 1;                       // of the objective; a power of two
  double bytes_per_unit = 1;                       // of memory rows; a power of two

  // The strategies with the largest values, the first of equals.
  [[nodiscard]] std::vector<std::uint32_t> round(std::span<const double> values) const;
};

// Without a budget (kNoBudget) there are no memory rows.
MarginalProgram make_marginal_program(const StrategySpace& space, std::int64_t budget);

// The same constraints with the peak itself, in units of bytes_per_unit, as the objective: the least peak of any
// allowed choice. Its last column is the peak, fixed bytes included.
MarginalProgram make_least_peak_program(const StrategySpace& space);

// How many columns either program has at least: what to look at before making one.
std::int64_t count_columns(const StrategySpace& space);

}  // namespace meshwright
