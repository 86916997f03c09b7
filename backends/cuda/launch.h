// A kernel's run, and the memory that it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/table.h"

namespace meshwright::cuda {

// Bytes of a device's memory.
struct Range {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

// A kernel's run over the indices 0 .. count-1. What it reads and writes is said for whoever proves that nothing races;
// a GPU is not told.
struct Launch {
  KernelId kernel = KernelId::copy;
  std::vector<std::byte> arguments;  // the kernel's struct
  std::int64_t count = 0;
  std::vector<Range> reads, writes;
  std::size_t compiled = 0;  // of a chain: which of those that `load_chains` got, counted from 1; 0: none
};

}  // namespace meshwright::cuda
