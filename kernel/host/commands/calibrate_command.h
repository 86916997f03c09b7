// `meshwright calibrate`: fits a device's coefficients to steps that were measured.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct CalibrateOptions {
  // A CSV file with the columns `plan` (a file that `plan -o` wrote; relative to the CSV file) and `seconds` (of a step), and, if there
  // is one, `recomputes` (1: each microbatch ran its forward twice).
  std::string rows;
  std::string coefficients = "matrix_efficiency,memory_efficiency,host_launch,host_collective,skew";
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string output;            // where the device's file is written
  std::string format = "text";   // or "json"
};

int run_calibrate(const CalibrateOptions& options);

}  // namespace meshwright::host
