// The search of shardings and of what runs again for the backward, together (joint_space.h): by the objective, and by what a step is at least on averages of paths
// (decision 041). Inputs are converted again for all users of a fork in that space, or for none (decision 064); what is proven takes that to cost nothing, for any of them.
#pragma once

#include <memory>

#include "recompute_search.h"

namespace meshwright {

class JointSearch {
 public:
  // Of a wish whose budget binds in `without`, the search of its problem. Both, and the solver, outlive this. Errors: those of building.
  static Result<JointSearch> make(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without);
  JointSearch(JointSearch&&) noexcept;
  ~JointSearch();

  // The plan with the least objective, whatever runs again beside what must. Errors: those of solving and lowering.
  Status search();

  // Nothing fits, whatever runs again.
  [[nodiscard]] bool is_proven_impossible() const;

  // That plan, if one was found. Errors: those of building and lowering.
  [[nodiscard]] Result<std::optional<RecomputeSearch>> found();

  // The problems in which nothing and in which every block runs again, and in which every operand is converted again that could be.
  [[nodiscard]] const Problem& kept() const;
  [[nodiscard]] const Problem& again() const;
  [[nodiscard]] const Problem& converted() const;

  // The best of what was found and of what else is known, if anything is, and of what rounds of searches by the step find from there. Its bounds are of any plan of the
  // mesh (RecomputeSearch::of_any). Errors: as above.
  Result<std::optional<RecomputeSearch>> best_of(std::optional<RecomputeSearch> known);

 private:
  class Impl;
  explicit JointSearch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwright
