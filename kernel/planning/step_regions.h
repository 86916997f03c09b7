// Parts of a problem in which people plan by hand: data parallelism along all axes, or along all but the last, with ZeRO or without; `thorough`ly, along each axis by itself too.
//
// An average of paths weighs a whole model at once, and where two ways of computing are nearly as good it leads a search of all of them past plans that keep
// to one. A part is small, and searched by the step with an average of its own. What is found is as good a plan of the whole problem as any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "block_joins.h"
#include "fitted_search.h"
#include "pins.h"
#include "step_search.h"

namespace meshwright {

// The choice of another problem that does the same; empty if that lacks one of its strategies.
Choice same_choice(const Problem& problem, const Choice& choice, const Problem& other);

// A part that is searched by the step, as often as is asked for.
class PartSearch {
 public:
  // `part` was built from `given` and pinned; `best` is its best plan by the objective. The solver outlives this.
  PartSearch(const FittedSolver& solver, ProblemInput given, Problem part, std::int64_t budget, FittedPlan best)
      : solver_(solver), given_(std::move(given)), part_(std::move(part)), budget_(budget), steps_(solver, given_, part_, budget, std::move(best), {}, kMostWorkInPart) {}

  // Errors: those of solving and lowering.
  Status run_rounds(int count) { return steps_.run_rounds(count); }
  // So many, or with so much work (StepSearch::work). Errors: as above.
  Status run_rounds(int count, double least_work) {
    StepSearch* const steps[] = {&steps_};
    return meshwright::run_rounds(steps, count, least_work);
  }
  // The best one with each of these, choices of the whole problem, as far as they are of the part. Errors: as above.
  Status join_best(const Problem& whole, std::span<const Choice> others);
  // Plans that do little otherwise than the best one, so many at a time, as long as one of them is shorter. Errors: as above.
  Status try_neighbours(std::size_t count);
  [[nodiscard]] double step_seconds() const { return steps_.best().plan.step_seconds; }
  // That with the shortest step, of the whole problem; empty if that lacks one of its strategies.
  [[nodiscard]] Choice choice_of(const Problem& whole) const { return choice_of(whole, steps_.best().assignment.choice); }
  // One of the part, likewise.
  [[nodiscard]] Choice choice_of(const Problem& whole, const Choice& choice) const { return same_choice(part_, choice, whole); }

 private:
  const FittedSolver& solver_;
  const ProblemInput given_;
  Problem part_;
  const std::int64_t budget_;
  StepSearch steps_;
};

// Choices of the whole problem, one for each part in which a plan was found.
struct ChoicesByHand {
  std::vector<Choice> by_step;  // that with the shortest step, in an order in which neighbours have most in common
  std::vector<Choice> by_objective;
  std::vector<std::unique_ptr<PartSearch>> shortest;  // a few parts, that with the shortest step first
};

// Of `problem`, which was built from `input` and pinned. A part that the pins or the filter exclude, or of which no plan within the budget is found with little
// work, has none. Each is searched once by its objective and in so many rounds of StepSearch. Errors: those of solving and lowering.
Result<ChoicesByHand> choices_by_hand(const FittedSolver& solver, const ProblemInput& input, const Problem& problem, std::span<const Pin> pins,
                                      std::int64_t budget, int rounds, bool thorough);

// So many rounds more of a part; what they find is tried in the search of the whole, and joined to its best. Errors: those of solving and lowering.
Status search_further(PartSearch& part, int rounds, const Problem& whole, StepSearch& steps);

// The same, of a part searched as the whole is: its best joined to what other parts found, plans near to that, rounds, and plans near to what these found.
Status search_nearby(PartSearch& part, const ChoicesByHand& others, int rounds, const Problem& whole, StepSearch& steps);

}  // namespace meshwright
