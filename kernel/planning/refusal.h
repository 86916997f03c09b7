// Why no plan fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner.h"

namespace meshwright {

// What binds on each mesh, the smallest budget for which a plan is known, the bound below which none exists, and what
// fills the peak of the smallest plan (`smallest`, null if none is known), and what its device holds besides, if the
// budget is what that leaves (`device` not null).
std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t budget_bytes,
                         const DeviceSpec* device = nullptr);

}  // namespace meshwright
