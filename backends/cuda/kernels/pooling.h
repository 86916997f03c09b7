// Pooling over windows of up to three dimensions, and where each element's gradient comes from.
#pragma once

#include "space.h"

namespace meshwright::cuda {

// `wide` is what windows slide over, `narrow` has a window for each element. All lie row by row: the forward's operand
// and result, or its gradients. `indices`: of each window, which position of its plane is the largest.
struct PoolArguments {
  int64_t x[kSpace] = {}, y[kSpace] = {};  // positions of `wide`, of `narrow`
  int64_t kernel[kSpace] = {}, stride[kSpace] = {}, padding[kSpace] = {}, dilation[kSpace] = {};
  bool adaptive = false;
  bool counts_padding = true;     // in a mean
  bool looks_everywhere = false;  // indices were given, and need not lie in their windows
  double divisor = 0;             // of a mean; 0: how many elements count
  View wide, narrow, indices;
};

// The window of an output position along one dimension: [first, last), `step` apart, and as long as it counts for a
// mean.
struct PoolWindow {
  int64_t first, last, step, counted;
};

MESHWRIGHT_DEVICE PoolWindow window_of(const PoolArguments& a, int d, int64_t y) {
  if (a.adaptive) {
    const int64_t first = quotient(y * a.x[d], a.y[d]), last = quotient((y + 1) * a.x[d] + a.y[d] - 1, a.y[d]);
    return {first, last, 1, last - first};
  }
  const int64_t begin = y * a.stride[d] - a.padding[d], end = begin + (a.kernel[d] - 1) * a.dilation[d] + 1;
  const int64_t first = begin < 0 ? begin + quotient(-begin + a.dilation[d] - 1, a.dilation[d]) * a.dilation[d] : begin,
                last = end < a.x[d] ? end : a.x[d];
  // The padding counts, but not what a rounded-up size reaches beyond it.
  const int64_t padded = a.x[d] + a.padding[d];
  const int64_t counted = a.counts_padding ? (end < padded ? end : padded) - begin : last > first ? last - first : 0;
  return {first, last, a.dilation[d], counted};
}

// NaN counts as larger than any; the first of the largest.
MESHWRIGHT_KERNEL(pool_maximum, PoolArguments) {
  const PoolArguments& a = arguments;
  const int64_t plane = quotient(index, volume_of(a.y)), first = plane * volume_of(a.x);
  int64_t y[kSpace];
  place_of(index - plane * volume_of(a.y), a.y, y);
  const PoolWindow w0 = window_of(a, 0, y[0]), w1 = window_of(a, 1, y[1]), w2 = window_of(a, 2, y[2]);
  int64_t found = -1;
  double largest = 0;
  for (int64_t x0 = w0.first; x0 < w0.last; x0 += w0.step) {
    for (int64_t x1 = w1.first; x1 < w1.last; x1 += w1.step) {
      for (int64_t x2 = w2.first; x2 < w2.last; x2 += w2.step) {
        const int64_t at = (x0 * a.x[1] + x1) * a.x[2] + x2;
        const double here = load(a.wide, first + at);
        if (found >= 0 && !(here > largest) && here == here) continue;
        found = at;
        largest = here;
      }
    }
  }
  if (a.narrow.data != nullptr) store(a.narrow, index, largest);
  if (a.indices.data != nullptr) store(a.indices, index, static_cast<double>(found));
}

MESHWRIGHT_DEVICE double share_of(const PoolArguments& a, int64_t counted) {
  return 1 / (a.divisor != 0 ? a.divisor : static_cast<double>(counted));
}

MESHWRIGHT_KERNEL(pool_mean, PoolArguments) {
  const PoolArguments& a = arguments;
  const int64_t plane = quotient(index, volume_of(a.y)), first = plane * volume_of(a.x);
  int64_t y[kSpace];
  place_of(index - plane * volume_of(a.y), a.y, y);
  const PoolWindow w0 = window_of(a, 0, y[0]), w1 = window_of(a, 1, y[1]), w2 = window_of(a, 2, y[2]);
  double sum = 0;
  for (int64_t x0 = w0.first; x0 < w0.last; x0 += w0.step) {
    for (int64_t x1 = w1.first; x1 < w1.last; x1 += w1.step) {
      for (int64_t x2 = w2.first; x2 < w2.last; x2 += w2.step)
        sum += load(a.wide, first + (x0 * a.x[1] + x1) * a.x[2] + x2);
    }
  }
  store(a.narrow, index, sum * share_of(a, w0.counted * w1.counted * w2.counted));
}

// Which output positions [first, last) may have this one in their windows, along one dimension.
struct PoolReach {
  int64_t first, last;
};

MESHWRIGHT_DEVICE PoolReach reach_of(const PoolArguments& a, int d, int64_t x) {
  if (a.looks_everywhere) return {0, a.y[d]};
  if (a.adaptive) return {quotient(x * a.y[d], a.x[d]), quotient((x + 1) * a.y[d] + a.x[d] - 1, a.x[d])};
  const int64_t before = x + a.padding[d] - (a.kernel[d] - 1) * a.dilation[d],
                last = quotient(x + a.padding[d], a.stride[d]) + 1;
  return {before > 0 ? quotient(before + a.stride[d] - 1, a.stride[d]) : 0, last < a.y[d] ? last : a.y[d]};
}

MESHWRIGHT_DEVICE bool is_in(const PoolWindow& window, int64_t x) {
  if (x < window.first || x >= window.last) return false;
  return quotient(x - window.first, window.step) * window.step == x - window.first;
}

// One index an element of `wide`, which adds up what windows give it.
MESHWRIGHT_KERNEL(pool_maximum_gradient, PoolArguments) {
  const PoolArguments& a = arguments;
  const int64_t plane = quotient(index, volume_of(a.x)), own = index - plane * volume_of(a.x),
                first = plane * volume_of(a.y);
  int64_t x[kSpace];
  place_of(own, a.x, x);
  const PoolReach r0 = reach_of(a, 0, x[0]), r1 = reach_of(a, 1, x[1]), r2 = reach_of(a, 2, x[2]);
  double sum = 0;
  for (int64_t y0 = r0.first; y0 < r0.last; ++y0) {
    for (int64_t y1 = r1.first; y1 < r1.last; ++y1) {
      for (int64_t y2 = r2.first; y2 < r2.last; ++y2) {
        const int64_t y = first + (y0 * a.y[1] + y1) * a.y[2] + y2;
        if (static_cast<int64_t>(load(a.indices, y)) == own) sum += load(a.narrow, y);
      }
    }
  }
  store(a.wide, index, sum);
}

MESHWRIGHT_KERNEL(pool_mean_gradient, PoolArguments) {
  const PoolArguments& a = arguments;
  const int64_t plane = quotient(index, volume_of(a.x)), first = plane * volume_of(a.y);
  int64_t x[kSpace];
  place_of(index - plane * volume_of(a.x), a.x, x);
  const PoolReach r0 = reach_of(a, 0, x[0]), r1 = reach_of(a, 1, x[1]), r2 = reach_of(a, 2, x[2]);
  double sum = 0;
  for (int64_t y0 = r0.first; y0 < r0.last; ++y0) {
    const PoolWindow w0 = window_of(a, 0, y0);
    for (int64_t y1 = r1.first; y1 < r1.last; ++y1) {
      const PoolWindow w1 = window_of(a, 1, y1);
      for (int64_t y2 = r2.first; y2 < r2.last; ++y2) {
        const PoolWindow w2 = window_of(a, 2, y2);
        if (!is_in(w0, x[0]) || !is_in(w1, x[1]) || !is_in(w2, x[2])) continue;
        sum += load(a.narrow, first + (y0 * a.y[1] + y1) * a.y[2] + y2) *
               share_of(a, w0.counted * w1.counted * w2.counted);
      }
    }
  }
  store(a.wide, index, sum);
}

}  // namespace meshwright::cuda
