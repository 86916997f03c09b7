// `meshwright run`: trains by a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "commands/program_commands.h"

namespace meshwright::host {

struct RunOptions {
  ProgramOptions plan;  // with the backend's id
  std::int64_t steps = 1;
  std::optional<std::uint32_t> seed;  // of inputs, and of weights that the model's file does not hold; absent: 0, or that of the file that is resumed
  std::string save;                   // where the state after the last step is written; "": nowhere
  std::string resume;                 // a file that was saved; "": from the model's weights
};

// Takes so many steps, on the weights and inputs that `verify` takes, and prints the losses, the seconds and the bytes. Where the backend's ranks are processes
// (mpirun), each of them calls this; the first alone prints, writes and says errors, and all give the same exit code.
int run_training(const RunOptions& options);

}  // namespace meshwright::host
