// `meshwright profile`: what one device holds in memory over a training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::host {

struct ProfileOptions {
  bool allow_changed_model = false;  // as of the commands on plans
  std::string input;  // a model, profiled on one device, or a plan
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string format = "text";   // or "json"
  std::string svg;               // a file for the curve; none if ""
  std::optional<std::uint32_t> stage;  // of a plan of several
  std::string nodes = "20";      // rows of the table of nodes, or "all"
};

// Prints the profile and gives the exit code.
int run_profile(const ProfileOptions& options);

}  // namespace meshwright::host
