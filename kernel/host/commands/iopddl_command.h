// `meshwright iopddl`: solves a problem of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism, by the
// contest's interface: a file and seconds in, the last line on standard output is the assignment.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct IopddlOptions {
  std::string input;
  double seconds = 0;  // of wall time, from the start of the command to its end
  std::string intra;   // the configured one if ""
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string format = "text";   // or "json"
};

// Prints what was found and gives the exit code; 3 if no choice fits, or none was found.
int run_iopddl(const IopddlOptions& options);

}  // namespace meshwright::host
