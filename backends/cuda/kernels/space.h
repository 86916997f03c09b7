// Positions in up to three dimensions of space.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

constexpr int kSpace = 3;  // dimensions; those that a tensor lacks come first, and have one position

// Of a position in row-major order: where it is along each dimension.
MESHWRIGHT_DEVICE void place_of(int64_t position, const int64_t* sizes, int64_t* at) {
  for (int d = kSpace; d-- > 1;) {
    const int64_t rest = quotient(position, sizes[d]);
    at[d] = position - rest * sizes[d];
    position = rest;
  }
  at[0] = position;
}

MESHWRIGHT_DEVICE int64_t volume_of(const int64_t* sizes) { return sizes[0] * sizes[1] * sizes[2]; }

}  // namespace meshwright::cuda
