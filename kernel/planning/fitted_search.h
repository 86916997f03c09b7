// The best plan of one mesh within a memory budget, which is held against what the plan's program really holds.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "meshwright/memory_profile.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/solver.h"
#include "meshwright/strategy.h"
#include "meshwright/timeline.h"

#include "known_fits.h"
#include "search_settings.h"

namespace meshwright {

// What a plan is held against besides the budget of its program's peak.
struct DeviceMemory {
  const Cluster* cluster = nullptr;  // whose devices the plan's account is of; null: there is no account
  bool must_fit = false;             // A plan whose account is more than a device's memory is none.
};

// A plan with what its program holds.
struct FittedPlan {
  Assignment assignment;
  Plan plan;                  // its peak and its account are the program's
  MemoryProfile memory;       // empty if there is no program
  std::string no_program;     // why: then the peak is what the search's terms say
};

struct FittedSearch {
  SolveStatus status = SolveStatus::infeasible;  // heuristic, if nothing was found and nothing is proven
  Assignment without_budget;           // the best choice of all, whatever it holds
  std::optional<FittedPlan> best;                // within the budget
  double lower_bound_seconds = 0;      // no plan within the budget costs less
  std::string binding;                 // if there is none, what binds
  std::int64_t least_bytes = 0;        // no plan holds less, as far as it is proven
  std::optional<FittedPlan> smallest;  // of those that were seen and do not fit, the one that holds least
};

inline constexpr int kMostRounds = 8;  // of less and less being asked for, until a plan's program fits

class FittedSolver {
 public:
  using Solve = std::function<Result<Assignment>(const ModelProblem&, std::int64_t budget, Effort effort)>;
  // The plan of an answer.
  using Fit = std::function<Result<FittedPlan>(Assignment)>;
  // IntraSolver::least_costs, with so much work at most.
  using Bound = std::function<Result<LeastCosts>(const StrategySpace&, std::int64_t most_work)>;
  // Errors: those of lowering.
  using Lower = std::function<Result<Program>(const Plan&)>;

  FittedSolver(Solve solve, Lower lower, DeviceMemory device = {}, Bound bound = {})
      : solve_(std::move(solve)), lower_(std::move(lower)), device_(device), bound_(std::move(bound)) {}

  // The terms of the search undercount, and know nothing of communicators and of the allocator: where a plan's program
  // holds more than the budget, or the plan more than the device, less is asked for, with less work, until it fits. The
  // bound is that of the budget itself. Where the budget binds the solver may take `most_work` of work, and as much again
  // for all that is asked for after that. `problem` is as it was when this returns.
  Result<FittedSearch> search(const ProblemInput& input, Problem& problem, std::int64_t budget, std::int64_t most_work = kAnyWork, int most_rounds = kMostRounds) const;

  // The same for a problem whose answers become plans in another way. The last one that was made is the answer's.
  Result<FittedSearch> search(const ProblemInput& input, Problem& problem, std::int64_t budget, std::int64_t most_work, int most_rounds,
                              const Fit& fit) const;

  // The best choice by the search's terms alone, as far as that effort finds it where the budget binds. `problem` is as it was when this returns.
  Result<Assignment> assign(const ProblemInput& input, Problem& problem, std::int64_t budget, Effort effort = kAnyWork) const;

  // The same; `without_budget` is set to the best choice of all, whatever it holds.
  Result<Assignment> assign(const ProblemInput& input, Problem& problem, std::int64_t budget, Effort effort, Assignment& without_budget) const;

  // The solver's answer to a problem by its space alone.
  [[nodiscard]] Result<Assignment> solve(const ProblemInput& input, const Problem& problem, std::int64_t budget, Effort effort) const {
    return solve_({input, problem}, budget, effort);
  }

  // What choices with each strategy cost at least; empty where that is not known.
  [[nodiscard]] Result<LeastCosts> least_costs(const StrategySpace& space, std::int64_t most_work) const { return bound_ ? bound_(space, most_work) : LeastCosts(); }

  // A plan that holds as little as can be found: what a refusal names.
  Result<std::optional<FittedPlan>> smallest(const ProblemInput& input, const Problem& problem, std::int64_t least_bytes) const;

  // By how many bytes a plan is too large: for the budget of its program's peak, or for the device by its whole
  // account; at most 0 if it fits.
  [[nodiscard]] std::int64_t excess_bytes(const Plan& plan, std::int64_t budget) const;
  // Whether it has a program, and fits.
  [[nodiscard]] bool is_within(const FittedPlan& fitted, std::int64_t budget) const { return fitted.no_program.empty() && excess_bytes(fitted.plan, budget) <= 0; }

  // The plan of an assignment, with its peak and its step. Up to the budget it may hold more than it must, if that makes the step shorter, and
  // shorter than `wanted_seconds`.
  Result<FittedPlan> fit(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget,
                         double wanted_seconds = std::numeric_limits<double>::infinity()) const;

  // The same, but that a plan which holds more than the budget is not simulated: its step is infinite.
  Result<FittedPlan> fit_within(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget) const;

  // As `fit`, if it has a program, holds no more than the budget, and its step is shorter than that; else nothing, which takes less work, and none where
  // this or a fit has said so before.
  Result<std::optional<FittedPlan>> fit_shorter(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget,
                                                double than_seconds) const;

 private:
  enum class Wanted : std::uint8_t { any, within, shorter };
  Result<std::optional<FittedPlan>> fit(const ProblemInput& input, const Problem& problem, Assignment assignment, std::int64_t budget, double wanted_seconds,
                                        Wanted wanted) const;
  // What the program holds.
  void add_memory(const Program& program, FittedPlan& fitted) const;
  // What the step takes, and a note where the objective says something else.
  static void add_step(const Problem& problem, const Timeline& times, FittedPlan& fitted);

  Solve solve_;
  Lower lower_;
  DeviceMemory device_;
  Bound bound_;
  std::shared_ptr<KnownFits> known_ = std::make_shared<KnownFits>();
};

// With a plugin's solver, within the limits of `search`. Both outlive it.
FittedSolver fitted_solver(const IntraSolver& solver, const Config& search, FittedSolver::Lower lower, DeviceMemory device);

}  // namespace meshwright
