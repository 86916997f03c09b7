// Walks a box of elements that lies in two buffers, each of which holds a box of the same tensor, row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/shard.h"

namespace meshwright {

// A whole tensor of these sizes.
inline Box whole_box(const std::vector<std::int64_t>& sizes) { return {std::vector<std::int64_t>(sizes.size(), 0), sizes}; }

// Calls visit(position in a, position in b, count) for each contiguous run of `part`, which lies in both.
template <class Visit>
void for_each_run(const Box& a, const Box& b, const Box& part, Visit visit) {
  if (part.elements() == 0) return;
  // The innermost dimensions that are whole in both buffers make one run, and so does the part of the one before them.
  std::size_t outer = part.extent.size();
  std::int64_t count = 1;
  while (outer > 0) {
    --outer;
    count *= part.extent[outer];
    if (part.extent[outer] != a.extent[outer] || part.extent[outer] != b.extent[outer]) break;
  }
  std::int64_t a_stride = 1, b_stride = 1, at_a = 0, at_b = 0;
  std::vector<std::int64_t> a_strides(part.extent.size()), b_strides(part.extent.size()), index(outer, 0);
  for (std::size_t d = part.extent.size(); d-- > 0;) {
    at_a += (part.start[d] - a.start[d]) * a_stride;
    at_b += (part.start[d] - b.start[d]) * b_stride;
    a_strides[d] = a_stride;
    b_strides[d] = b_stride;
    a_stride *= a.extent[d];
    b_stride *= b.extent[d];
  }
  for (;;) {
    visit(static_cast<std::size_t>(at_a), static_cast<std::size_t>(at_b), static_cast<std::size_t>(count));
    std::size_t d = outer;
    while (d > 0) {
      --d;
      at_a += a_strides[d];
      at_b += b_strides[d];
      if (++index[d] < part.extent[d]) break;
      at_a -= a_strides[d] * part.extent[d];
      at_b -= b_strides[d] * part.extent[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace meshwright
