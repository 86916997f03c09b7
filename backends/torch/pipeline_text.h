// What the files of a pipeline say that those of one stage do not.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "stage_ends.h"

namespace meshwright::torch {

// Members of the class of one stage's model (prelude/pipeline.py, Staged).
std::string stage_settings(const PipelinePlan& pipeline, std::span<const BackendInput> stages, std::size_t stage, const StageEnds& ends);

// The constants of sharding.py, of which each rank takes those of its stage.
std::string stage_constants(const PipelinePlan& pipeline, std::span<const BackendInput> stages);

// model.py: the model of this rank's stage.
std::string pipeline_model_text(const PipelinePlan& pipeline, const std::string& name);

// "2 stages of 4 ranks"
std::string stages_phrase(const PipelinePlan& pipeline);

}  // namespace meshwright::torch
