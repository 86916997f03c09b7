// The stages that `meshwright place` found, as a table and as JSON (docs/placement.md).
#pragma once

#include <string>

#include "files/json.h"
#include "meshwright/placement.h"

namespace meshwright::host {

struct PlacedStages {
  std::string inter;  // the solver's id
  PlacementProblem problem;
  PlacementAnswer answer;  // not infeasible
  PlacementCost cost;
};

std::string placement_text(const PlacedStages& placed);
Json placement_json(const PlacedStages& placed);

}  // namespace meshwright::host
