// `meshwright place`: solves a placement problem of the literature, read from its authors' format: which nodes make up
// which stage, and on how many devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::host {

struct PlaceOptions {
  std::string input;
  std::string inter;          // the solver of the file's own problem if ""
  std::uint32_t devices = 0;  // 0: those of the file
  std::string memory;         // of a device, "8GiB"; "": what the file says
  std::string bandwidth;      // bytes a second, "25GiB"; "": what the file says
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string format = "text";   // or "json"
};

// Prints the stages and gives the exit code; 3 if none fit.
int run_place(const PlaceOptions& options);

}  // namespace meshwright::host
