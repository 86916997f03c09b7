// From a plan to the first form of its program (program.h). A translation: whatever is chosen, the plan says.
#pragma once

#include "meshwright/export.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright {

// The program of a plan, before any pass. Errors: bad_input if the model has no backward.
MESHWRIGHT_API Result<Program> lower(const Plan& plan);

// The forward of one microbatch, for a backend whose autograd makes the backward. A gradient goes the way back that its
// value came: a `convert` takes it from the layout of its result's gradient to that of its operand's, so there is one
// too where only these differ; a `load_parameter` takes it to the parameter's state. No backward, no update.
MESHWRIGHT_API Result<Program> lower_forward(const Plan& plan);

}  // namespace meshwright
