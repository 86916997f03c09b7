// train.py: the training loop around an emitted model.
#pragma once

#include <string>

#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "statements.h"

namespace meshwright::torch {

std::string train_text(const Plan& plan, const Forward& forward);

// Of a pipeline, whose stages take a step together.
std::string pipeline_train_text(const PipelinePlan& pipeline);

}  // namespace meshwright::torch
