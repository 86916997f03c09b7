// The plan of a model on one device: a mesh without axes, on which every op has one strategy and nothing is converted.
#pragma once

#include "meshwright/conversion.h"
#include "meshwright/cost.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"
#include "model_reader.h"

namespace meshwright::host {

// A cost profile for when nothing is chosen by its price.
CostProfile any_profile();

// Errors: those of atomize, build_problem and make_plan.
Result<Plan> serial_plan(const TrainedModel& model, const OpTable& ops, const ConversionSearch& conversions,
                         const CostProfile& profile);

}  // namespace meshwright::host
