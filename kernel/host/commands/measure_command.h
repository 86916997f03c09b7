// `meshwright measure`: asks a profiler about a device and writes the device's file.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct MeasureOptions {
  std::string profiler = "measured";
  std::string device;            // a file, for what the profiler does not say; "": a CPU with this machine's memory
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string output;            // where the device's file is written
  std::string format = "text";   // or "json"
};

int run_measure(const MeasureOptions& options);

}  // namespace meshwright::host
