// Checkmate (Jain et al. 2020, arXiv 1910.02653, "Checkmate: Breaking the memory wall with optimal tensor
// rematerialization") on a chain: its integer program (frontier_program.h), solved by HiGHS, and where that is cut off
// its relaxation, rounded (§5), or segments of equal length.
//
// The family of schedules, and so what "optimal" is about: between two frontiers (the first run of a forward, or a
// backward) each forward runs at most once, in the order of the chain; what is held may be let go and made again.
// rotor's family is within it, so no answer of rotor is faster than an optimal one of checkmate. All that checkpoint.h
// allows is more, since a value may be made twice between two frontiers, but none of 8,000 answers was slower for it.
// Where inputs of stages take no bytes, a forward runs between frontiers of its own part alone (frontier_program.h).
#pragma once

#include <cstdint>

#include "meshwright/checkpoint.h"

namespace meshwright {

struct CheckmateOptions {
  std::int64_t max_columns = 7'000;         // of the program that HiGHS is given: 4 n (n + 1) of n stages that are one part
  std::int64_t work_limit = 4'000'000'000;  // elementary steps of each run of HiGHS; counted
  double deadline_seconds = 60;             // wall time of all budgets together, a last resort
};

class Checkmate final : public CheckpointSolver {
 public:
  explicit Checkmate(const CheckmateOptions& options) : options_(options) {}

 private:
  // optimal: proven by the program or its relaxation, in whole ticks: HiGHS computes in doubles, so what it proves is
  // lowered by its tolerances, and where forwards that run again take more than about 10^8 units (of the greatest
  // common divisor of their ticks) an answer may read as heuristic for want of digits. heuristic: cut off, or the
  // program is too large; `method` says which, and gives the bound. infeasible: `method` says whether it is proven, and
  // `least_bytes` is then the least peak of the family; else it is the least of the schedules that were found. What
  // HiGHS claims against a schedule that is known is not believed, and `method` says so. Errors: none of its own.
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                 std::span<const std::int64_t> budgets) const override;

  CheckmateOptions options_;
};

}  // namespace meshwright
