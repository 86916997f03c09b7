// A plan of several stages as JSON: the file that `plan -o` writes (docs/plan-format.md), and the object that `plan --format json` prints.
#pragma once

#include "files/json.h"
#include "meshwright/pipeline_plan.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

Json pipeline_json(const PipelinePlan& pipeline);

// The short object: what all stages take together, and a list of them.
Json pipeline_summary_json(const PlanOutcome& outcome);

}  // namespace meshwright::host
