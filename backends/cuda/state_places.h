// Where what the optimizer keeps of each parameter lies in a rank's memory, one parameter behind the other.
#pragma once

#include <cstddef>

#include "command.h"

namespace meshwright::cuda {

inline constexpr std::size_t kAlignment = 256;  // bytes, of what is no part of the arena

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct StatePlace {
  TensorType type;  // of each of these on this rank
  std::byte* master =
      nullptr;  // the parameter itself, more precise than where it is computed with; null: it is not kept
  std::byte *first = nullptr, *second = nullptr;  // moments; null: the optimizer keeps none
};

StatePlace state_place(const Program& program, const Block& block, std::size_t parameter);
// Of all of them.
std::size_t state_bytes(const Program& program);

}  // namespace meshwright::cuda
