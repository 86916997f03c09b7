// Why no plan fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner.h"

namespace meshwright {

// What binds on each mesh, the smallest budget for which a plan is known (0: none is), the bound below which none exists, or that nothing
// is proven, and what fills the peak of the smallest plan (`smallest`, null if none is known), and what its device holds besides, if the
// budget is what that leaves (`device` not null).
std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t smallest_budget_bytes, std::int64_t budget_bytes,
                         const DeviceSpec* device = nullptr);

// Pins that cannot be met together, and can without any one of them, where no choice of the problem is allowed. "": it is not the pins. Errors: those
// of building and solving.
Result<std::string> contradiction_of(const FittedSolver& solver, const ProblemInput& input, std::vector<Pin> pins);

}  // namespace meshwright
