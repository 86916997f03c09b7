// A kernel's run, and the memory that it touches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/table.h"

namespace meshwright::cuda {

// Bytes of a device's memory.
struct Range {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

// Whether there is a byte of both.
inline bool overlap(const std::vector<Range>& some, const std::vector<Range>& others) {
  return std::ranges::any_of(some, [&](const Range& a) {
    return std::ranges::any_of(others, [&](const Range& b) {
      return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
    });
  });
}

// What something reads and writes.
struct Touched {
  std::vector<Range> reads, writes;
};
// Of what has reads and writes: whether one writes what the other one touches.
template <class One, class Other>
bool conflict(const One& one, const Other& other) {
  return overlap(one.writes, other.writes) || overlap(one.writes, other.reads) || overlap(one.reads, other.writes);
}

// A kernel's run over the indices 0 .. count-1. What it reads and writes is said for whoever proves that nothing races;
// a GPU is not told.
struct Launch {
  KernelId kernel = KernelId::copy;
  std::vector<std::byte> arguments;  // the kernel's struct
  std::int64_t count = 0;
  std::vector<Range> reads, writes;
  std::size_t compiled = 0;  // of a chain: which of those that `load_chains` got, counted from 1; 0: none
};

template <class Arguments>
Launch launch_of(KernelId kernel, const Arguments& arguments, std::int64_t count, std::vector<Range> reads,
                 std::vector<Range> writes) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
  Launch made{kernel, std::vector<std::byte>(sizeof arguments), count, std::move(reads), std::move(writes)};
  std::memcpy(made.arguments.data(), &arguments, sizeof arguments);
  return made;
}

}  // namespace meshwright::cuda
