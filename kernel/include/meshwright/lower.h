// From a plan to the first form of its program (program.h). Lowering translates; everything that can be chosen stands in the plan.
#pragma once

#include "meshwright/export.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright {

// The program of a plan, before any pass. Errors: bad_input if the model has no backward.
MESHWRIGHT_API Result<Program> lower(const Plan& plan);

}  // namespace meshwright
