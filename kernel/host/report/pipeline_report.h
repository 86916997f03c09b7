// A simulated step of a plan of several stages: a table by stage, a Chrome trace with a process for each stage, and a picture.
#pragma once

#include <string>

#include "files/json.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/pipeline_step.h"

namespace meshwright::host {

std::string step_text(const PipelinePlan& pipeline, const PipelineStep& step);

Json step_json(const PipelinePlan& pipeline, const PipelineStep& step);

// Complete events, metadata and flows, in microseconds, as Perfetto reads them: of each stage what it computes and what it sends.
std::string step_trace(const PipelinePlan& pipeline, const PipelineStep& step);

// A row for each stage. The updates, with which a step ends, are left out. Errors: bad_input for more events than a picture shows.
Result<std::string> step_svg(const PipelinePlan& pipeline, const PipelineStep& step);

}  // namespace meshwright::host
