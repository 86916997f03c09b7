// What goes where a mask is true, in the order of the elements: which one it is, a count of those before says.
#pragma once

#include "blocks.h"

namespace meshwright::cuda {

constexpr int kMaskTile = 2048;  // elements of which a block counts those under the mask

struct MaskArguments {
  Sizes sizes;
  int64_t elements = 0, sources = 0;
  bool gathers = false;       // of the backward: elements under the mask go to the first places of the result
  View mask, self;            // strides of the elements
  View source, result;        // lie row by row
  int64_t* counts = nullptr;  // by tile
  int64_t* ends = nullptr;    // their running sum
  int32_t* fault = nullptr;   // as of LookupArguments: fewer sources than the mask wants; null of the backward
};

MESHWRIGHT_DEVICE bool is_under_mask(const MaskArguments& a, int64_t at) {
  return at < a.elements && load(a.mask, offset_of(a.sizes, a.mask.strides, at)) != 0;
}

// One index a tile.
MESHWRIGHT_BLOCK_KERNEL(mask_counts, MaskArguments) {
  int64_t count = 0;
  for (int i = thread; i < kMaskTile; i += kThreads) count += is_under_mask(arguments, index * kMaskTile + i) ? 1 : 0;
  count = sum_of_block(count);
  if (thread == 0) arguments.counts[index] = count;
}

// One index a tile.
MESHWRIGHT_BLOCK_KERNEL(mask_scatter, MaskArguments) {
  constexpr int kOwn = kMaskTile / kThreads;  // elements of a thread, which follow each other
  const MaskArguments& a = arguments;
  const int64_t begin = index * kMaskTile + static_cast<int64_t>(thread) * kOwn;
  bool holds[kOwn];
  int64_t count = 0, total = 0;
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    holds[i] = is_under_mask(a, begin + i);
    count += holds[i] ? 1 : 0;
  }
  int64_t next = (index == 0 ? 0 : a.ends[index - 1]) + sum_before_in_block(count, total);
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const int64_t at = begin + i;
    if (at >= a.elements || (a.gathers && !holds[i])) continue;
    const bool is_missing = holds[i] && next >= a.sources;
    if (is_missing && a.fault != nullptr) *a.fault = 1;
    if (a.gathers) {
      if (!is_missing) store(a.result, next, load(a.self, offset_of(a.sizes, a.self.strides, at)));
    } else if (holds[i]) {
      store(a.result, at, is_missing ? 0 : load(a.source, next));
    } else {
      store(a.result, at, load(a.self, offset_of(a.sizes, a.self.strides, at)));
    }
    next += holds[i] ? 1 : 0;
  }
}

}  // namespace meshwright::cuda
