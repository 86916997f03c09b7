// What the files of a pipeline say that those of one stage do not.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "stage_ends.h"

namespace meshwright::torch {

// Members of the class of one stage's model (prelude/pipeline.py, Stage), on the mesh of the stage.
std::string stage_settings(std::size_t stage, const StageEnds& ends, const Mesh& mesh);

// The constants of sharding.py, of which each rank takes those of its group.
std::string stage_constants(const PipelinePlan& pipeline, std::span<const BackendInput> stages);

// The class of the whole, of which each rank has the stages of its group (prelude/pipeline.py, Staged).
std::string pipeline_class(const PipelinePlan& pipeline, std::span<const BackendInput> stages, const std::string& name);

// "2 stages of 4 ranks", "4 stages on 2 groups of 2 ranks"
std::string stages_phrase(const PipelinePlan& pipeline);

}  // namespace meshwright::torch
