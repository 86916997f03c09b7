// Runs a program with each rank in a process of its own.
#pragma once

#include <memory>

#include "meshwright/backend.h"
#include "runtime.h"
#include "world.h"

namespace meshwright {

// `world` outlives it.
std::unique_ptr<Runtime> make_message_runtime(World& world);

}  // namespace meshwright
