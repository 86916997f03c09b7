// How sure a plan is, once the bounds of all meshes are known.
#pragma once

#include "meshwright/plan.h"

namespace meshwright {

// By its objective, and the lower bound that the plan has.
void state_by_objective(Plan& plan);

// By its step: no plan has one below `bound` seconds; 0 if nothing is known.
void state_by_step(Plan& plan, double bound);

}  // namespace meshwright
