// [search] inter = "joint": stages, schedule, microbatches, cuts and meshes, searched for together (planning/joint_stages.h).
#pragma once

#include "config/plan_options.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace meshwright::host {

// The best of what the search expects to be best, planned: each stage by the exact search, with what it may hold and run again; cut again once plans say what stages take. Errors: bad_input for options that
// are of one plan's search, and where nothing can be tried; plugin_failed.
Result<PlanOutcome> plan_joint_stages(const PlanOptions& options, PluginHost& host);

}  // namespace meshwright::host
