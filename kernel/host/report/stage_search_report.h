// What was tried where the number of stages is chosen ([search] inter = "grid"), for people and for programs.
#pragma once

#include <string>

#include "files/json.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

// A table by number of stages, how many combinations were planned and skipped, and what was not considered. Empty where nothing was chosen.
std::string stage_search_text(const PlanOutcome& outcome);

// Adds "stage_search" with every combination, where the number of stages was chosen.
void add_stage_search(Json& json, const PlanOutcome& outcome);

}  // namespace meshwright::host
