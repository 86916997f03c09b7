// The plan of one mesh with the shortest simulated step, and what no step on that mesh is below (decision 041).
//
// The additive objective is not the step: it hides each parameter's communication behind one op. But what a step is at least on an average of
// paths is additive (step_parts.h), and the least of that over all choices is a bound. Each round searches by another average (path_averages.h);
// what it finds is simulated, and so are plans that are the best one in some blocks and the new one in the others (block_joins.h).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "block_joins.h"
#include "fitted_search.h"
#include "meshwright/step_parts.h"
#include "path_averages.h"

namespace meshwright {

inline constexpr double kOptimalGap = 0.001;  // a step so near its bound is called optimal
inline constexpr double kNear = 1.02;  // times the shortest step: what is no longer may be shorter once it is searched further
inline constexpr double kLeastWork = 8e6;  // of rounds (StepSearch::work); those on small meshes are cheaper than reading the model
inline constexpr std::int64_t kMostWorkOfRound = 20'000'000, kMostWorkInPart = 5'000'000;  // of its solver, where the budget binds

class StepSearch {
 public:
  // Whether a plan that was found on the way may be the answer; empty: any may.
  using Admits = std::function<Result<bool>(const FittedPlan&)>;

  // `best` is the best plan of the problem by its objective, within the budget, and was simulated. The first three outlive this.
  StepSearch(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget, FittedPlan best, Admits admits = {},
             std::int64_t most_work = kMostWorkOfRound);

  // No plan of this problem within the budget has a shorter step; 0 as long as nothing is known.
  [[nodiscard]] double bound_seconds() const { return averages_.bound_seconds(); }
  // Of the best step, the part that it may be too long by.
  [[nodiscard]] double gap() const { return 1 - bound_seconds() / best_.plan.step_seconds; }
  // No plan of this problem at all has a shorter step.
  [[nodiscard]] double bound_without_budget_seconds() const { return bound_without_budget_seconds_; }
  // Of all that were simulated, fit and were admitted, the one with the shortest step.
  [[nodiscard]] const FittedPlan& best() const { return best_; }
  // Takes the place of the best one, whatever its step.
  void answer_with(FittedPlan plan) { best_ = std::move(plan); }
  // What a round costs, about, in entries of tables.
  [[nodiscard]] double work() const { return work_; }
  // More rounds would hardly raise the bound.
  [[nodiscard]] bool is_done() const { return done_ || averages_.is_done(); }

  // The bound without a budget is not asked for: rounds cost less where the budget binds.
  void leave_out_fastest() { leaves_out_fastest_ = true; }

  // Errors: those of solving and lowering.
  Status run_round();
  // So many of them, or until it is done. Errors: as above.
  Status run_rounds(int count);
  // Simulates choices that were found elsewhere. Errors: as above.
  Status try_choices(std::span<const Choice> choices);
  // Plans that do little otherwise than this one, so many of them. Errors: as above.
  Status try_neighbours(const FittedPlan& plan, std::size_t count);
  // Simulates plans that are the one in some blocks and the other in the rest. Errors: as above.
  Status join(Choice one, const Choice& other);
  // The best one with each of these.
  Status join_best(std::span<const Choice> others);

 private:
  [[nodiscard]] bool may_be_shorter(const PathTable& table) const;
  Status try_choice(const Choice& choice);
  Status simulate(Assignment found);
  // The best one from now on, if it is shorter, fits and is admitted.
  Status take(FittedPlan fitted);

  const FittedSolver& solver_;
  const ProblemInput& input_;
  Problem& problem_;
  const std::int64_t budget_, most_work_;
  const StepParts parts_;
  const std::vector<std::uint32_t> blocks_;
  const Admits admits_;
  FittedPlan best_;
  double bound_without_budget_seconds_ = 0, work_ = 0;
  bool done_ = false;  // nothing fits any more
  bool leaves_out_fastest_ = false, binds_ = false;  // the budget, in the last round
  PathAverages averages_;
  std::set<Choice> simulated_;
};

// Rounds of the searches whose bounds are lowest, as long as they may have a shorter step than the shortest one, and with so much work in all as that many
// of each, or that much. Errors: those of the rounds.
Status run_rounds(std::span<StepSearch* const> searches, double count, double least_work);

}  // namespace meshwright
