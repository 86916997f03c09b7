// The time of one training step on two streams: computing, with the conversions of activations in line, and beside it
// the gathers and gradient reductions of parameters. Private to the kernel.
#pragma once

#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

struct StepInput {
  const Problem& problem;
  const TrainingSettings& training;
  std::vector<const Strategy*> chosen;  // by variable
  std::vector<double> forward;          // by edge: seconds of the value's conversion
  std::vector<double> backward;         // by edge: seconds of its gradient's
};

struct StepTimes {
  double seconds = 0;
  double parameter_seconds = 0;  // what gathers and reductions of parameters take
  double waits_for_gathers = 0;  // of that, how long computing stands still
  double waits_at_end = 0;       // ... and how long the update does, for the last reductions
};

StepTimes simulate_step(const StepInput& step);

}  // namespace meshwright
