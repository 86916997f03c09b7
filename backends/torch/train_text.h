// train.py: the training loop around an emitted model.
#pragma once

#include <string>

#include "meshwright/plan.h"
#include "statements.h"

namespace meshwright::torch {

std::string train_text(const Plan& plan, const Forward& forward);

}  // namespace meshwright::torch
