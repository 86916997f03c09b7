// `meshwright plan MODEL ...`
#pragma once

#include "config/plan_options.h"

namespace meshwright::host {

// Plans, prints the result, and writes the plan file if one was asked for. Returns the exit code (DESIGN §4).
int run_plan(const PlanOptions& options);

}  // namespace meshwright::host
