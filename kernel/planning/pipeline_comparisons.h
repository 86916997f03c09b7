// What a step would take otherwise than by a pipeline's plan: with each stage split as usual plans are, and with the model in one stage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwright/pipeline_plan.h"
#include "meshwright/result.h"
#include "meshwright/stage_part.h"

namespace meshwright {

struct PipelineRequest;

struct PipelineComparison {
  std::string name;                    // "data parallel in each stage", "one stage"
  std::optional<double> step_seconds = {};  // simulated; nothing if there is no such plan
  std::int64_t peak_bytes = 0;         // of the fullest device
  std::string note = {};               // why not, or how
  std::int64_t devices = 0;            // that it runs on; 0: those of the plan
};

// Of a cluster of unlike devices the model in one stage stands on each part of it alone. `parts` by stage of the plan. Without a budget but for that in one stage, which is searched for by the objective on meshes of at most two axes: a step that is
// searched for may be shorter. Errors: those of building, solving, lowering and simulating.
Result<std::vector<PipelineComparison>> pipeline_comparisons(const PipelineRequest& request, const PipelinePlan& plan, std::span<const StagePart> parts);

}  // namespace meshwright
