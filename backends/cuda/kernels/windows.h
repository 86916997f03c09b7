// Windows of an image as columns, and sums of columns, or of windows that slide along a line, back to where they were
// taken.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Columns: planes × taps × places, images: planes × height × width; both lie row by row.
struct ColumnArguments {
  int64_t size[2] = {}, kernel[2] = {}, dilation[2] = {}, padding[2] = {}, stride[2] = {};
  int64_t places[2] = {};  // of windows
  View from, result;
};

// One index an element of the columns. What stands outside of the image is zero.
MESHWRIGHT_KERNEL(image_columns, ColumnArguments) {
  const ColumnArguments& a = arguments;
  const int64_t line = quotient(index, a.places[1]), rows = quotient(line, a.places[0]),
                plane = quotient(rows, a.kernel[0] * a.kernel[1]), tap = rows - plane * a.kernel[0] * a.kernel[1],
                tap_row = quotient(tap, a.kernel[1]), row = line - rows * a.places[0],
                y = row * a.stride[0] - a.padding[0] + tap_row * a.dilation[0],
                x = (index - line * a.places[1]) * a.stride[1] - a.padding[1] +
                    (tap - tap_row * a.kernel[1]) * a.dilation[1];
  const bool inside = y >= 0 && y < a.size[0] && x >= 0 && x < a.size[1];
  store(a.result, index, inside ? load(a.from, (plane * a.size[0] + y) * a.size[1] + x) : 0);
}

// Of which window a tap is there. -1: of none.
MESHWRIGHT_DEVICE int64_t window_of(const ColumnArguments& a, int d, int64_t at, int64_t tap) {
  return place_at(at + a.padding[d] - tap * a.dilation[d], a.stride[d], a.places[d]);
}

// One index an element of the image.
MESHWRIGHT_KERNEL(column_image, ColumnArguments) {
  const ColumnArguments& a = arguments;
  const int64_t line = quotient(index, a.size[1]), x = index - line * a.size[1], plane = quotient(line, a.size[0]),
                y = line - plane * a.size[0];
  double sum = 0;
  for (int64_t i = 0; i < a.kernel[0]; ++i) {
    const int64_t row = window_of(a, 0, y, i);
    for (int64_t j = 0; row >= 0 && j < a.kernel[1]; ++j) {
      const int64_t column = window_of(a, 1, x, j);
      if (column < 0) continue;
      const int64_t tap = (plane * a.kernel[0] + i) * a.kernel[1] + j;
      sum += load(a.from, (tap * a.places[0] + row) * a.places[1] + column);
    }
  }
  store(a.result, index, sum);
}

// Windows of `length` elements, one each `step` elements, slide along one dimension.
struct SlidingArguments {
  Sizes sizes;  // of the whole
  int32_t dim = 0;
  int64_t length = 1, step = 1, count = 0;
  int64_t within_stride = 0;  // from one element of a window to the next
  View from;                  // strides of the whole's dimensions; along `dim`, of the windows
  View result;                // lies row by row
};

// One index an element of the whole: the sum of what all windows have there.
MESHWRIGHT_KERNEL(sliding_gradient, SlidingArguments) {
  const SlidingArguments& a = arguments;
  int64_t rest = index, own = 0, first = 0;
  for (int d = a.sizes.rank; d-- > 0;) {
    const int64_t outer = quotient(rest, a.sizes.of[d]), at = rest - outer * a.sizes.of[d];
    rest = outer;
    if (d == a.dim)
      own = at;
    else
      first += at * a.from.strides[d];
  }
  const int64_t last = quotient(own, a.step), begin = own < a.length ? 0 : quotient(own - a.length, a.step) + 1;
  double sum = 0;
  for (int64_t window = begin; window <= last && window < a.count; ++window)
    sum += load(a.from, first + window * a.from.strides[a.dim] + (own - window * a.step) * a.within_stride);
  store(a.result, index, sum);
}

}  // namespace meshwright::cuda
