// `meshwright explain`: why a plan does what it does at a node, and what the alternatives would cost.
#pragma once

#include "commands/program_commands.h"

namespace meshwright::host {

struct ExplainOptions {
  ProgramOptions plan;
  std::string name;          // of a node, a parameter or a value; "": what takes most time
  std::int64_t most = 8;     // alternatives that are searched for, and rows of the table without a name
};

// Prints a table: what was chosen, and each alternative with what it would add. The search is the plan's: its graph, mesh
// and cluster, with the filters and pins that the configuration gives.
int run_explain(const ExplainOptions& options);

}  // namespace meshwright::host
