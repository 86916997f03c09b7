// What runs again for its backward, where memory binds ([search] recompute).
//
// "blocks": how many of a model's blocks, the first so many, since what they keep is held longest. With more of them less is held, and more is computed; in between,
// the budget asks for shardings that cost more. So the time falls and then rises with the number, and a few searches find about where it turns: with no block, with
// all, where by interpolation the budget stops to bind, and two between.
//
// "free": which ops, together with layouts (joint_search.h), by the objective. Plans whose step is shorter are found by turns: where layouts are given, what is kept is a
// small search (kept_space.h); where that is given, layouts are one. Layouts to begin with are the fastest of all, those of the plan with the least objective, or of the best
// one with blocks where that is not found, and the fastest of budgets between (MAP §5.3), since what runs again makes room; from the best of them on, as long as the plan
// becomes better. Of both, and of what is some of each, layouts are then searched by the step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "recompute_pins.h"

namespace meshwright {

// What is searched for: what runs again beside what must, of a problem in which only that does.
struct RecomputeWish {
  const ProblemInput& input;
  const Problem& problem;  // of `input`, pinned
  std::span<const Pin> pins;
  const RecomputePins& recompute_pins;
  std::int64_t budget = 0;
  bool of_ops = false;  // "free"
  std::int64_t most_work = kAnyWork;  // of one search of layouts
  bool has_rival = false;  // Another mesh has a plan: where no plan is found on this one that runs all blocks again, and its space is large, little more is tried.
  int step_rounds = 0;        // of searches by the step, at most

  // The input where these run again.
  [[nodiscard]] ProblemInput with(std::vector<std::string> names) const;
  // Its problem, pinned. Errors: those of building.
  [[nodiscard]] Result<Problem> problem_with(std::vector<std::string> names) const;
};

struct RecomputeSearch {
  std::vector<std::string> recomputed;  // ProblemInput::recomputed of what follows
  Problem problem;
  FittedSearch found;  // Its bound holds for any number of blocks.
  std::string how = "";  // it came about, a sentence; "" where nobody need know
  bool of_any = false;   // What `found` proves holds whatever runs again.
  double without_seconds = 0;     // the step of the plan without, as far as it was searched by the step too; 0 if it was not
  double step_bound_seconds = 0;  // No plan within the budget has a shorter step, whatever runs again; 0 where nothing is known.
};

// A plan as a search's answer, whatever it holds: `found.best` is it, and its bound is of any number of blocks that run again. `fastest` is the best choice of all where
// none does.
RecomputeSearch found_plan(const Assignment& fastest, std::vector<std::string> names, Problem problem, FittedPlan plan);

// That of the plan of these layouts where these run again. Errors: those of building and lowering.
Result<RecomputeSearch> with_layouts(const FittedSolver& solver, const RecomputeWish& wish, const Assignment& fastest, std::vector<std::string> names,
                                     const std::vector<std::uint32_t>& choice);

// Makes the bound of a search hold for any number of blocks: what is made again costs time, so none has a plan below the best one of no block and no budget.
void bound_any_number(const Assignment& without_budget, FittedSearch& found);

// The best of these searches, if it is better than `without`, that of the problem itself: by the simulated step, or the objective where there is none. If no plan
// is found, the search with all blocks, which says what holds the least. Nothing where no budget binds, or the model has no such blocks. Errors: those of building,
// solving and lowering.
Result<std::optional<RecomputeSearch>> search_recomputed(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without);

}  // namespace meshwright
