// By which average of paths to search next (step_paths.h): the one on which the plans so far are longest, moved towards the one that gave the best bound, so that rounds
// don't jump about (in-out separation, Ben-Ameur and Neto 2007).
#pragma once

#include <vector>

#include "meshwright/step_paths.h"

namespace meshwright {

class PathAverages {
 public:
  explicit PathAverages(const StepPlaces& places);

  // One more plan.
  void add(PathTable plan) { plans_.push_back(std::move(plan)); }
  [[nodiscard]] PathTable next();
  // That no plan is shorter on this average, which came from `next`.
  void prove(const PathTable& average, double seconds);

  // No plan has a shorter step; 0 as long as nothing is known.
  [[nodiscard]] double bound_seconds() const { return bound_seconds_; }
  // More rounds would hardly raise the bound.
  [[nodiscard]] bool is_done() const { return done_; }

 private:
  const StepPlaces places_;
  std::vector<PathTable> plans_;
  PathTable anchor_;        // the average that gave the best bound; at first, one of natural paths
  double most_seconds_ = 0; // no average gives a better bound than this, for these plans
  double bound_seconds_ = 0;
  int rounds_ = 0;
  bool done_ = false;
};

}  // namespace meshwright
