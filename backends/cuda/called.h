// Which entry points this process has called without an error.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "entry_points.h"

namespace meshwright::cuda {

inline std::array<std::atomic<bool>, kEntryPoints.size()> called{};

inline void note_called(EntryPoint entry) {
  called[static_cast<std::size_t>(entry)].store(true, std::memory_order_relaxed);
}

}  // namespace meshwright::cuda
