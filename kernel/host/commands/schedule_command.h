// `meshwright schedule`: what a pipeline schedule does, without any model: each stage's order, the time that it takes
// and what it holds, where a forward and each of a backward's two parts take one unit, and communication none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::host {

struct ScheduleOptions {
  std::string id;  // of a plugin of kind "schedules"
  // 0: not given, and so left to the plugin.
  std::uint32_t stages = 0;
  std::uint32_t chunks = 0;
  std::uint32_t microbatches = 0;
  std::string file;  // for a plugin that reads one; "": none, or the configuration's
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string format = "text";   // or "json", "svg"
};

// Prints the schedule and gives the exit code.
int run_schedule(const ScheduleOptions& options);

}  // namespace meshwright::host
