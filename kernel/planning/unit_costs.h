// What the units of a model (model_units.h) take under one plan of it, as its program is simulated and as it holds memory: sums of them stand for stages that are cut
// and planned otherwise. An estimate: units beside each other in a stage are taken to do as they do in the plan that was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/op.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "model_units.h"

namespace meshwright {

struct UnitCost {
  double forward_seconds = 0;          // of a microbatch
  double input_gradient_seconds = 0;   // of its backward: what comes before it waits for that, and what runs again
  double weight_gradient_seconds = 0;  // the rest of it
  double update_seconds = 0;           // of a step
  // What the communication stream takes beside them: it may take longer than the computing does.
  double forward_beside_seconds = 0, backward_beside_seconds = 0;  // of a microbatch
  double weight_beside_seconds = 0;    // of that backward what travels for weights' gradients
  double last_beside_seconds = 0;      // of the last microbatch's backward, in which sums of gradients are reduced
  double wait_seconds = 0;             // for which updates wait when all backwards are done
  double resident_bytes = 0;           // all the time
  double saved_bytes = 0;              // of each microbatch in flight
  double passing_bytes = 0;            // besides, while it computes, at most

  [[nodiscard]] double backward_seconds() const { return input_gradient_seconds + weight_gradient_seconds; }
};

// Of several units: the sums, but of what passes the most.
UnitCost operator+(UnitCost one, const UnitCost& other);
// So many times, but for what passes.
UnitCost operator*(UnitCost cost, double factor);

// The order of microbatches in which units are measured (TrainingSettings::order): with two in flight, where there are several.
std::string measured_order(std::int64_t microbatches);

// By kind, the mean over the units of the kind. `program` is the finished one of `plan`, a plan of the model of these units in that order. Errors:
// those of make_timeline.
Result<std::vector<UnitCost>> unit_costs(const Plan& plan, const Program& program, const ModelUnits& units, const OpTable& ops, const CostProfile& profile);

}  // namespace meshwright
