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

double simulate_step(const StepInput& step);

}  // namespace meshwright
