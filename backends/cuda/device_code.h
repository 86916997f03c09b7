// The kernels as nvcc compiled them, which are a part of this library; nothing where CMake found no nvcc.
#pragma once

#include <cstddef>
#include <span>

namespace meshwright::cuda {

std::span<const std::byte> device_code();

}  // namespace meshwright::cuda
