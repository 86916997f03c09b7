// A plan summed up by module: what its weights look like, which collectives it causes, seconds and bytes. Identical
// modules (the layers of a transformer) are folded into one row: "h.{0-11}.mlp.c_fc".
#pragma once

#include <string>
#include <vector>

#include "meshwright/plan.h"

namespace meshwright::host {

struct ModuleRow {
  std::string module;
  std::size_t times = 1;  // how many modules this row stands for; the figures are those of all of them
  std::string weights;  // "weight R[R S1 R], bias R from S1": as computed with, from how stored
  std::string in_line;  // collectives between ops: "AG(0,1) 2AR(1)"
  std::string beside;   // collectives of parameters, beside the computing
  double compute_seconds = 0;
  double communication_seconds = 0;
  std::int64_t saved_bytes = 0;
  std::int64_t state_bytes = 0;
};

// In the order of the model. The figures of all rows sum to those of the plan. A prefix that all modules share is left out.
std::vector<ModuleRow> module_table(const Plan& plan);

// What the abbreviations of collectives mean, in one line.
extern const char* const kCollectiveLegend;

}  // namespace meshwright::host
