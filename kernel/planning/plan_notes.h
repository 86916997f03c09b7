// Sentences about a plan, or about why there is none, that a reader of the numbers should know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/plan.h"
#include "meshwright/timeline.h"
#include "units.h"

namespace meshwright {

// Which mesh axes are idle; that the plan's account is more than its device's memory.
std::vector<std::string> notes_of(const Plan& plan);

// For each op without a rule why, in which modules, and its seconds a step on every device. `warnings`: of atomize, one
// for each such op.
std::vector<std::string> unruled_notes(const Plan& plan, const CostProfile& profile, const std::vector<std::string>& warnings);

// Why the plan's simulated step is not its objective, where they differ by more than a twentieth. `times` is that step, and
// `counted` what the objective has for the communication of parameters.
std::optional<std::string> step_note(const Plan& plan, const Timeline& times, double counted);

// Why something runs again: what the fastest plan takes that was found without, if one was; and how it came about, if anybody need know.
std::string again_note(std::optional<double> seconds_without, const std::string& how);

}  // namespace meshwright
