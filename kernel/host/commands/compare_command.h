// `meshwright compare`: several solvers on one problem, under one cost model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/plan_options.h"

namespace meshwright::host {

struct CompareOptions {
  PlanOptions plan;
  std::vector<std::string> solvers;
  std::vector<std::int64_t> stages;    // numbers of pipeline stages; none: what [search] says
  std::vector<std::string> schedules;  // of those with several; none: what [search] says
  std::vector<std::string> inters;     // who chooses the number of stages, in the place of these; none: nobody is compared
  bool verify = true;  // run each plan on simulated ranks
};

// Prints a table: a row for each solver, number of stages and schedule, or who chooses them. 3 if none has a plan that fits, 1 if a plan does not compute what one device does.
int run_compare(const CompareOptions& options);

}  // namespace meshwright::host
