// CUDA and NCCL as the machine has them, loaded when the backend starts: it is built and loaded on machines that have
// neither.
#pragma once

#include <memory>

#include "driver.h"
#include "meshwright/result.h"

namespace meshwright::cuda {

// `tf32`: products of float32 may round what they multiply to TF32.
// Errors: plugin_failed, "no device: REASON", where there is no library of CUDA.
Result<std::unique_ptr<Driver>> load_driver(bool tf32 = false);

}  // namespace meshwright::cuda
