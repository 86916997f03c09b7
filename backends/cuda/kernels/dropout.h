// Dropout, by the global index of each element: as RandomStream (random_stream.h) draws it.
#pragma once

#include "lookups.h"

namespace meshwright::cuda {

// All lie row by row. `mask`, unless it has no memory, is 1 where an element is kept.
struct DropoutArguments {
  uint64_t key = 0;  // of the stream
  double probability = 0, scale = 1;
  Shard elements;
  View input, result, mask;
};

// Steele, Lea, Flood 2014: SplitMix64's finalizer, and its step.
MESHWRIGHT_DEVICE uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}
MESHWRIGHT_DEVICE double uniform_of(uint64_t key, int64_t element) {
  return static_cast<double>(mixed(key + static_cast<uint64_t>(element) * 0x9e3779b97f4a7c15ULL) >> 11U) * 0x1.0p-53;
}

MESHWRIGHT_KERNEL(drop_out, DropoutArguments) {
  const bool kept = arguments.probability == 0 ||
                    uniform_of(arguments.key, global_of(arguments.elements, index)) >= arguments.probability;
  store(arguments.result, index, kept ? load(arguments.input, index) * arguments.scale : 0);
  if (arguments.mask.data != nullptr) store(arguments.mask, index, kept ? 1 : 0);
}

}  // namespace meshwright::cuda
