// `meshwright compare`: several solvers on one problem, under one cost model.
#pragma once

#include <vector>

#include "config/plan_options.h"

namespace meshwright::host {

struct CompareOptions {
  PlanOptions plan;
  std::vector<std::string> solvers;
  bool verify = true;  // run each plan on simulated ranks
};

// Prints a table: a row for each solver. 3 if none has a plan that fits, 1 if a plan does not compute what one device does.
int run_compare(const CompareOptions& options);

}  // namespace meshwright::host
