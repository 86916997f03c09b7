// What each strategy, and each pair of them, takes at the places of a step (step_paths.h): the least of a step as a search problem.
//
// Everything is priced as in the problem itself. Left out, so that no path is longer than a program's: conversions inside of ops that others may share,
// what a collective of few small gathers waits for, and what the last of several microbatches adds up.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/step_paths.h"
#include "meshwright/strategy.h"

namespace meshwright {

class MESHWRIGHT_API StepParts {
 public:
  // When what runs again does: where it does in the problem, or anywhere from there on to its own backward, as it may if less runs again.
  enum class Again : std::uint8_t { there, from_there_on };

  // Of a problem whose model has a backward; both must outlive this.
  StepParts(const ProblemInput& input, const Problem& problem, Again again = Again::there);
  ~StepParts();

  [[nodiscard]] StepPlaces places() const;
  // Ticks of one strategy for each variable.
  [[nodiscard]] PathTable of(std::span<const std::uint32_t> choice) const;
  // The same where of all that runs again in the problem only these variables do, nodes and what hands on what they make.
  [[nodiscard]] PathTable of(std::span<const std::uint32_t> choice, const std::vector<bool>& again) const;
  // The problem's space, where a choice costs what it takes on an average of paths, rounded down. No step of it is shorter than that and
  // what every choice takes.
  [[nodiscard]] StrategySpace space(const PathTable& average) const;
  [[nodiscard]] double fixed_ticks(const PathTable& average) const;

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace meshwright
