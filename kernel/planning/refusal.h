// Why no plan fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner.h"

namespace meshwright {

// What binds on each mesh, the smallest budget for which a plan is known, the bound below which none exists, and what
// fills the peak of the smallest plan (`smallest`, null if none is known).
std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t budget_bytes);

}  // namespace meshwright
