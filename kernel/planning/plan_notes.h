// Sentences about a plan, or about why there is none, that a reader of the numbers should know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/plan.h"
#include "units.h"

namespace meshwright {

// How memory was counted, and which mesh axes are idle.
std::vector<std::string> notes_of(const Plan& plan);

// For each op without a rule why, in which modules, and its seconds a step on every device. `warnings`: of atomize, one
// for each such op.
std::vector<std::string> unruled_notes(const Plan& plan, const CostProfile& profile, const std::vector<std::string>& warnings);

// What fills the memory even if each variable took the least that it can, whatever the others do, in parentheses.
std::string least_memory_text(const Problem& problem);

}  // namespace meshwright
