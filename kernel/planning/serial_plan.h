// The plan of a model on one device: a mesh without axes, on which every op has one strategy and nothing is converted.
#pragma once

#include "meshwright/cost.h"
#include "meshwright/plan.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"

namespace meshwright {

// A cost profile for when nothing is chosen by its price.
CostProfile any_profile();

// Errors: those of build_problem and make_plan.
Result<Plan> serial_plan(const PlanningContext& context);

}  // namespace meshwright
