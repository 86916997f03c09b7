// Interpolation along one dimension (plugins/ops/upsample/resample.h): each output position is a weighted sum of some
// input positions.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class Interpolation : int32_t { nearest, nearest_exact, linear, cubic };

// Lines of `input` and `output` elements: outer × size × inner, row by row. `transposed`: the result has inputs, which
// get what the outputs hold.
struct ResampleArguments {
  Interpolation interpolation = Interpolation::nearest;
  bool antialias = false, align_corners = false, transposed = false;
  double step = 1;  // of inputs, from an output to the next
  int64_t input = 0, output = 0, inner = 1;
  View from, result;
};

// Keys' cubic convolution (1981).
MESHWRIGHT_DEVICE double cubic_weight(double distance, double a) {
  const double x = fabs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
MESHWRIGHT_DEVICE double triangle_weight(double distance) {
  const double weight = 1 - fabs(distance);
  return weight > 0 ? weight : 0;
}

// The inputs that an output is a sum of; their weights are divided by `sum`.
struct ResampleTaps {
  int64_t first = 0, last = 0;  // and those before the latter, not yet clamped to the line
  double place = 0, width = 1, sum = 1;
};

MESHWRIGHT_DEVICE double resample_weight(const ResampleArguments& a, const ResampleTaps& taps, int64_t x) {
  if (a.interpolation <= Interpolation::nearest_exact) return 1;
  const bool is_cubic = a.interpolation == Interpolation::cubic;
  const double distance = (static_cast<double>(x) - taps.place) / taps.width;
  const double weight = is_cubic ? cubic_weight(distance, a.antialias ? -0.5 : -0.75) : triangle_weight(distance);
  return weight / taps.sum;
}

MESHWRIGHT_DEVICE ResampleTaps taps_of(const ResampleArguments& a, int64_t y) {
  ResampleTaps taps;
  const double at = static_cast<double>(y);
  const bool is_cubic = a.interpolation == Interpolation::cubic;
  if (a.interpolation <= Interpolation::nearest_exact) {
    const double offset = a.interpolation == Interpolation::nearest_exact ? 0.5 : 0;
    taps.first = static_cast<int64_t>(floor((at + offset) * a.step));
    taps.last = taps.first + 1;
    return taps;
  }
  if (a.antialias) {  // the filter is as wide as an output step where that is longer than an input step
    taps.width = a.step > 1 ? a.step : 1;
    const double reach = (is_cubic ? 2 : 1) * taps.width, center = a.step * (at + 0.5);
    taps.place = center - 0.5;
    const auto first = static_cast<int64_t>(center - reach + 0.5), last = static_cast<int64_t>(center + reach + 0.5);
    taps.first = first > 0 ? first : 0;
    taps.last = last < a.input ? last : a.input;
    double sum = 0;
    for (int64_t x = taps.first; x < taps.last; ++x) sum += resample_weight(a, taps, x);
    taps.sum = sum;
    return taps;
  }
  taps.place = a.align_corners ? a.step * at : a.step * (at + 0.5) - 0.5;
  if (!is_cubic && taps.place < 0) taps.place = 0;
  const auto before = static_cast<int64_t>(floor(taps.place));
  taps.first = before - (is_cubic ? 1 : 0);
  taps.last = before + (is_cubic ? 3 : 2);
  return taps;
}

// The border goes on.
MESHWRIGHT_DEVICE int64_t on_line(const ResampleArguments& a, int64_t x) {
  return x < 0 ? 0 : x < a.input ? x : a.input - 1;
}

// The outputs that may be sums of input x: all that are near, and beyond the ends all.
MESHWRIGHT_DEVICE void outputs_near(const ResampleArguments& a, int64_t x, int64_t& first, int64_t& last) {
  const double reach = 3 * (a.step > 1 ? a.step : 1) + 2;
  first = 0;
  last = a.output;
  if (a.step <= 0) return;
  const auto low = static_cast<int64_t>(floor((static_cast<double>(x) - reach) / a.step)) - 1,
             high = static_cast<int64_t>(ceil((static_cast<double>(x) + reach) / a.step)) + 2;
  if (x > 0 && low > 0) first = low;
  if (x < a.input - 1 && high < a.output) last = high;
}

// One index an element of the result.
MESHWRIGHT_KERNEL(resample, ResampleArguments) {
  const ResampleArguments& a = arguments;
  const int64_t size = a.transposed ? a.input : a.output, other = a.transposed ? a.output : a.input,
                line = quotient(index, a.inner), column = index - line * a.inner, outer = quotient(line, size),
                own = line - outer * size, from = outer * other * a.inner + column;
  double sum = 0;
  if (!a.transposed) {
    const ResampleTaps taps = taps_of(a, own);
    for (int64_t x = taps.first; x < taps.last; ++x)
      sum += resample_weight(a, taps, x) * load(a.from, from + on_line(a, x) * a.inner);
    store(a.result, index, sum);
    return;
  }
  int64_t first = 0, last = 0;
  outputs_near(a, own, first, last);
  for (int64_t y = first; y < last; ++y) {
    const ResampleTaps taps = taps_of(a, y);
    double weight = 0;
    for (int64_t x = taps.first; x < taps.last; ++x) weight += on_line(a, x) == own ? resample_weight(a, taps, x) : 0;
    if (weight != 0) sum += weight * load(a.from, from + y * a.inner);
  }
  store(a.result, index, sum);
}

}  // namespace meshwright::cuda
