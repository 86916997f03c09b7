// What `verify --shrink` verified in place of a plan: for people, and as JSON.
#pragma once

#include <string>

#include "files/json.h"
#include "shrink_plan.h"

namespace meshwright::host {

std::string shrinkage_text(const Shrinkage& shrinkage);
Json shrinkage_json(const Shrinkage& shrinkage);

}  // namespace meshwright::host
