// A plan's choices on a smaller model of the same kind: with fewer layers, or with other sizes (resize.h).
//
// Layouts speak of atoms, and strategies of factors, by their number: so they mean the same on both models as long as each value is cut into as many atoms
// and each op has the same rule but for sizes. That is checked, for the backward too, and never assumed.
#pragma once

#include <map>
#include <string>

#include "meshwright/conversion.h"
#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/model_analysis.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"

namespace meshwright {

// By the name of a value that the smaller model has no more: the one that takes its place.
using TakenPlaces = std::map<std::string, std::string>;

// The plan of `model`, whose nodes and values have the names that they have in the plan's model; all that is in it has what it had: axes, layouts, ZeRO's
// stages, what runs again. Where a value takes another one's place, it lies for its users as that one did. Conversions have the plan's moves; those
// between layouts that met nowhere in the plan are found by `conversions`. What the plan says of seconds and bytes is left out: nothing of it is of this model. Its part is that of the plan.
// Errors: bad_input, naming the node or value: it is not in the plan, is cut otherwise than it was, or cannot lie as it did; what `conversions` says.
MESHWRIGHT_API Result<Plan> carry_plan(const Plan& plan, ModelAnalysis model, const TakenPlaces& places, const CostProfile& profile, const ConversionSearch& conversions);

}  // namespace meshwright
