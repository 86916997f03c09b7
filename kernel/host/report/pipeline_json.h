// A plan of several stages as JSON: the file that `plan -o` writes (docs/plan-format.md), and the object that `plan --format json` prints.
#pragma once

#include "files/json.h"
#include "meshwright/pipeline_plan.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

// Adds the schedule, the microbatches, the simulated step and why devices wait in it.
void add_pipeline_step(Json& json, const PipelinePlan& pipeline);

Json pipeline_json(const PipelinePlan& pipeline);

// The short object: what all stages take together, and a list of them.
Json pipeline_summary_json(const PlanOutcome& outcome);

}  // namespace meshwright::host
