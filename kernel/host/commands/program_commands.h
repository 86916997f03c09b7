// What is done with a plan: `verify`, `emit`, `simulate`. Each prints its result and gives the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::host {

struct ProgramOptions {
  std::string plan;
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string format = "text";   // or "json"
  std::string backend;           // emit: the plugin; the configuration's if ""
  bool allow_changed_model = false;  // whether a model that is another one than was planned is none of our concern
  std::string output;            // emit: a folder; simulate: the trace's file
  std::optional<std::uint32_t> stage;  // explain: the one of a pipeline that is looked at
  std::string picture;           // simulate: of the stages of a pipeline, the picture's file
  std::int64_t steps = 3;        // verify: of training, in which parameters, the optimizer's state and buffers last
  bool exact = false;            // verify: in float64, every element against its row's largest
  bool shrink = false;           // verify: the plan's choices on a smaller model of the same kind
};

// Runs the plan on simulated ranks and compares it with one device. 1 if they differ.
int run_verify(const ProgramOptions& options);
// Writes the plan's program down, into a folder or, if there is one file and no folder, to the terminal.
int run_emit(const ProgramOptions& options);
// Time line and memory curve.
int run_simulate(const ProgramOptions& options);

}  // namespace meshwright::host
