// A plan for the terminal: what was found, a table by module, and what the alternatives would take.
#pragma once

#include <string>

#include "plugins/pipeline.h"

namespace meshwright::host {

std::string outcome_text(const PlanOutcome& outcome);

}  // namespace meshwright::host
