// Runs a kernel on the host so that what its launch says of reads and writes is found out where it isn't so.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "driver.h"

namespace meshwright::cuda {

// The kernel sees of `memory` only what the launch reads and writes: all else is NaN, as floating point, while it runs.
// Gives what it did that the launch does not say; "": nothing.
std::string run_guarded(const Launch& launch, std::vector<std::byte>& memory);

}  // namespace meshwright::cuda
