// A plan of several stages for the terminal: a table by stage, what goes between them, and a step's time.
#pragma once

#include <string>

#include "plugins/pipeline.h"

namespace meshwright::host {

std::string pipeline_text(const PlanOutcome& outcome);

}  // namespace meshwright::host
