// Runs a kernel on the host so that what its launch says of reads and writes is found out where it isn't so.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "driver.h"

namespace meshwright::cuda {

// The kernel sees of the blocks of memory only what the launch reads and writes: all else is NaN, as floating point,
// while it runs. Gives what it did that the launch does not say; "": nothing.
std::string run_guarded(const Launch& launch, std::span<const std::span<std::byte>> blocks);

}  // namespace meshwright::cuda
