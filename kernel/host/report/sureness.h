// How sure a plan is, for people and as JSON: its runner-up, and what would make that one win.
#pragma once

#include <string>

#include "files/json.h"
#include "meshwright/plan.h"

namespace meshwright::host {

// Lines that end with a line break; "" if the plan has no runner-up.
std::string sureness_text(const Plan& plan);

// As it stands in a plan's file and in what `plan --format json` prints (docs/plan-format.md).
Json runner_up_json(const RunnerUp& runner_up);

}  // namespace meshwright::host
