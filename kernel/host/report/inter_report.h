// What `compare --inter` prints: a row for each who chooses the number of stages, all under one clock.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"
#include "report/compare_report.h"

namespace meshwright::host {

// Steps, what no plan that was considered is below, and the seconds of the whole command.
std::string inter_text(const std::vector<ComparedPlan>& rows);
Json inter_json(const std::vector<ComparedPlan>& rows);

}  // namespace meshwright::host
