// Placement problems for tests: drawn ones, small enough for every answer to be tried.
#pragma once

#include <cstdint>
#include <limits>

#include "meshwright/placement.h"

namespace meshwright {

// The same on every machine for a seed. Costs are small whole numbers, so that many answers tie, memory often binds, and
// some problems have no answer.
LoadProblem draw_load_problem(std::uint32_t seed);        // up to 6 nodes, 3 devices; some with a backward pass
ReplicaProblem draw_replica_problem(std::uint32_t seed);  // up to 5 nodes, 4 devices
LayerProblem draw_layer_problem(std::uint32_t seed);      // up to 4 layers, 5 devices
StepProblem draw_step_problem(StepObjective objective, std::uint32_t seed);  // up to 5 nodes, 8 devices
// Of equal blocks of two nodes between two ends, on servers of eight devices: as ways on more devices, one takes longer for all that is sent, another one holds less.
StepProblem large_step_problem(StepObjective objective, std::uint32_t nodes, std::uint32_t devices, double device_bytes);

// The least objective of all lists of stages that `evaluate` accepts, each of them tried; infinite if there is none.
double best_objective(const LoadProblem& problem);
double best_objective(const ReplicaProblem& problem);
double best_objective(const LayerProblem& problem);
double best_objective(const StepProblem& problem);

}  // namespace meshwright
