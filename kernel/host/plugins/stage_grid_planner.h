// [search] inter = "grid": the number of stages, their schedule and the number of microbatches, by trying them.
#pragma once

#include "config/plan_options.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace meshwright::host {

// The shortest step of all plans with a number of stages that divides the devices, a schedule that is a plugin, and a number of microbatches that divides the batch; what the
// configuration gives of these is not changed. Each combination is planned as `plan` plans it by itself, but for those whose floor (step_floor.h) is no less than the best step
// found. Errors: bad_input for options that are of one plan's search; what all combinations are refused for; plugin_failed.
Result<PlanOutcome> plan_stage_grid(const PlanOptions& options, PluginHost& host);

}  // namespace meshwright::host
