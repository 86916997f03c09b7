// Intra-op solvers: StrategySpace in, one strategy per node out, with a lower bound and an honest status. A solver that needs more
// than the numbers (the names of a model's layers, say) is given the model too (solve_model).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/solve_status.h"
#include "meshwright/strategy_space.h"

namespace meshwright {

struct Problem;       // strategy.h
struct ProblemInput;

struct SearchLimits {
  std::int64_t work_limit = 4'000'000'000;  // elementary steps; counted, so that the answer is the same on any machine
  double deadline_seconds = 60.0;           // a last resort; an answer cut off by it says so
  double gap = 0;                           // an answer whose cost is above its bound by such a part of it at most is good enough; a solver may go on
};

struct Assignment {
  SolveStatus status = SolveStatus::heuristic;
  std::vector<std::uint32_t> choice;  // empty if infeasible or nothing was found
  TickSum cost = 0;
  TickSum lower_bound = 0;
  std::int64_t peak_bytes = 0;
  bool cut_off_by_clock = false;
  std::string method;  // what the solver did, in a few words: "elimination, width 2, one multiplier"
  // If infeasible: what binds. Either no allowed choice exists even without a budget (`least_bytes` 0), or the
  // smallest peak that any allowed choice can reach is at least `least_bytes`, more than the budget.
  std::string binding;
  std::int64_t least_bytes = 0;
};

// `binding` in the words that every solver uses, so that they agree: with a time, "needs at least 93.1 GiB per device
// at time 512; the budget is 80.0 GiB"; and where nothing is allowed whatever the budget.
MESHWRIGHT_API std::string binding_text(std::int64_t least_bytes, std::int32_t time, std::int64_t budget);
inline constexpr std::string_view kNothingAllowed =
    "no combination of strategies is allowed, even without a memory budget";

// A problem together with what it was built from. `problem.space` may lack memory terms, where no budget binds, and some of
// its strategies may be forbidden by pins: its nodes' costs say so, not `problem.variables`.
struct ModelProblem {
  const ProblemInput& input;
  const Problem& problem;
};

// By node and strategy.
using LeastCosts = std::vector<std::vector<TickSum>>;

class MESHWRIGHT_API IntraSolver {
 public:
  virtual ~IntraSolver();

  // Whether the solver needs the model. If so, the host calls `solve_model` with the problem as it was built, and `solve` may be
  // refused; else it calls `solve` with the reduced space.
  [[nodiscard]] virtual bool reads_model() const { return false; }

  // One Assignment for each budget (bytes per device; kNoBudget for none), which ascend. The wrapper validates the
  // space, the budgets and the answers (cost and peak are recomputed, a choice over budget is the plugin's fault), so
  // implementations may assume valid input with at least one node and one budget. They keep nothing, are deterministic, and
  // honour the limits.
  // Errors: bad_input (the space), plugin_failed (the answer).
  Result<std::vector<Assignment>> solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                        const SearchLimits& limits) const;

  // What an allowed choice costs at least that has this strategy of this node, whatever it holds: kForbidden or more where there is none. Empty where the solver
  // can't tell within the limits. Errors: bad_input (the space), plugin_failed (of other sizes than the space, or negative).
  Result<LeastCosts> least_costs(const StrategySpace& space, const SearchLimits& limits) const;

  // `solve` for the space of `model`: validation, answers and errors are the same.
  Result<std::vector<Assignment>> solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                              const SearchLimits& limits) const;

 private:
  virtual Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                   const SearchLimits& limits) const = 0;
  // Tells nothing, unless overridden.
  virtual Result<LeastCosts> do_least_costs(const StrategySpace& space, const SearchLimits& limits) const;
  // Calls `do_solve` with the model's space, unless overridden.
  virtual Result<std::vector<Assignment>> do_solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                                         const SearchLimits& limits) const;
};

}  // namespace meshwright
