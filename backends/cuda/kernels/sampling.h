// Images that are read at the places of a grid (plugins/ops/grid_sampler): images n c h w, grids n p q 2 of places x, y
// in [-1, 1].
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class Outside : int32_t { zeros, border, reflection };

// All lie row by row.
struct SamplingArguments {
  Outside outside = Outside::zeros;
  bool align_corners = false, nearest = false;
  int64_t channels = 0, height = 0, width = 0, places = 0;  // the latter: of each image
  View image, grid, gradient, result;
  int64_t* starts = nullptr;  // by place and tap: where it stands in the image's gradient; -1: outside
  double* shares = nullptr;   // the same: its weight
};

// Where along one dimension, in pixels, and how fast that moves with the grid's number.
struct GridCoordinate {
  double at = 0, slope = 0;
};

// Mirrored at two borders, which are given twice as large.
MESHWRIGHT_DEVICE GridCoordinate mirrored(GridCoordinate place, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return {};
  const double low = static_cast<double>(twice_low) / 2, span = static_cast<double>(twice_high - twice_low) / 2;
  double distance = place.at - low;
  if (distance < 0) {
    distance = -distance;
    place.slope = -place.slope;
  }
  const double rest = fmod(distance, span);
  if (fmod(floor(distance / span), 2.0) == 0) return {rest + low, place.slope};
  return {span - rest + low, -place.slope};
}

MESHWRIGHT_DEVICE GridCoordinate coordinate_of(const SamplingArguments& a, double number, int64_t size) {
  const double extent = static_cast<double>(size);
  GridCoordinate place;
  place.at = a.align_corners ? (number + 1) / 2 * (extent - 1) : ((number + 1) * extent - 1) / 2;
  place.slope = (a.align_corners ? extent - 1 : extent) / 2;
  if (a.outside == Outside::zeros) return place;
  if (a.outside == Outside::reflection)
    place = a.align_corners ? mirrored(place, 0, 2 * (size - 1)) : mirrored(place, -1, 2 * size - 1);
  if (place.at <= 0) return {};
  return place.at >= extent - 1 ? GridCoordinate{extent - 1, 0} : place;
}

// Of the four pixels around a place, or the nearest one: where it is in its plane, -1 if outside; its weight, and the
// weight's derivatives by the grid's x and y.
struct GridTap {
  int64_t pixel = -1;
  double weight = 0, by_x = 0, by_y = 0;
};

MESHWRIGHT_DEVICE int taps_of_place(const SamplingArguments& a) { return a.nearest ? 1 : 4; }

struct GridPlace {
  GridCoordinate x, y;
};
MESHWRIGHT_DEVICE GridPlace place_of(const SamplingArguments& a, int64_t index) {
  return {coordinate_of(a, load(a.grid, 2 * index), a.width), coordinate_of(a, load(a.grid, 2 * index + 1), a.height)};
}

MESHWRIGHT_DEVICE GridTap tap_of(const SamplingArguments& a, const GridPlace& place, int number) {
  const bool right = number % 2 == 1, down = number / 2 == 1;
  const GridCoordinate &x = place.x, &y = place.y;
  const double left = floor(x.at), top = floor(y.at), column = a.nearest ? nearbyint(x.at) : left + (right ? 1 : 0),
               row = a.nearest ? nearbyint(y.at) : top + (down ? 1 : 0);
  GridTap tap;
  const bool is_inside =
      row >= 0 && row < static_cast<double>(a.height) && column >= 0 && column < static_cast<double>(a.width);
  if (!is_inside) return tap;
  tap.pixel = static_cast<int64_t>(row) * a.width + static_cast<int64_t>(column);
  const double along_x = right ? x.at - left : left + 1 - x.at, along_y = down ? y.at - top : top + 1 - y.at;
  tap.weight = a.nearest ? 1 : along_x * along_y;
  tap.by_x = a.nearest ? 0 : (right ? 1 : -1) * x.slope * along_y;
  tap.by_y = a.nearest ? 0 : (down ? 1 : -1) * y.slope * along_x;
  return tap;
}

// One index an image, a channel and a place: neighbours read neighbouring places of the grid.
MESHWRIGHT_KERNEL(sample_grid, SamplingArguments) {
  const SamplingArguments& a = arguments;
  const int64_t plane = quotient(index, a.places), at = index - plane * a.places, first = plane * a.height * a.width;
  const GridPlace place = place_of(a, quotient(plane, a.channels) * a.places + at);
  double sum = 0;
  for (int i = 0; i < taps_of_place(a); ++i) {
    const GridTap tap = tap_of(a, place, i);
    if (tap.pixel >= 0) sum += load(a.image, first + tap.pixel) * tap.weight;
  }
  store(a.result, index, sum);
}

// One index a place of an image, over its channels.
MESHWRIGHT_KERNEL(sample_grid_gradient, SamplingArguments) {
  const SamplingArguments& a = arguments;
  const int64_t image = quotient(index, a.places), at = index - image * a.places, pixels = a.height * a.width;
  const GridPlace place = place_of(a, index);
  double by_x = 0, by_y = 0;
  for (int i = 0; i < taps_of_place(a); ++i) {
    const GridTap tap = tap_of(a, place, i);
    if (tap.pixel < 0) continue;
    double product = 0;
    for (int64_t c = image * a.channels; c < (image + 1) * a.channels; ++c)
      product += load(a.gradient, c * a.places + at) * load(a.image, c * pixels + tap.pixel);
    by_x += product * tap.by_x;
    by_y += product * tap.by_y;
  }
  store(a.result, 2 * index, by_x);
  store(a.result, 2 * index + 1, by_y);
}

// One index a tap of a place of an image.
MESHWRIGHT_KERNEL(sample_taps, SamplingArguments) {
  const SamplingArguments& a = arguments;
  const int64_t place = index / taps_of_place(a), image = quotient(place, a.places);
  const GridTap tap = tap_of(a, place_of(a, place), static_cast<int>(index % taps_of_place(a)));
  a.starts[index] = tap.pixel < 0 ? -1 : image * a.channels * a.height * a.width + tap.pixel;
  a.shares[index] = tap.weight;
}

}  // namespace meshwright::cuda
