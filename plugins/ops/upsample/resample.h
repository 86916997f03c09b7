// Interpolation along one dimension, as PyTorch does it (UpSample.h): each output position is a weighted sum of some input
// positions. Private to the family.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "numbers.h"

namespace meshwright {

enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, cubic };

// How an op interpolates. From its name: "aten.upsample_bilinear2d.vec", "aten._upsample_bicubic2d_aa".
struct Mode {
  Interpolation interpolation = Interpolation::nearest;
  bool antialias = false;
  std::size_t space = 2;  // dimensions that it is along: the last ones
};
Mode mode_of(std::string_view op);

// What output position y is a sum of.
struct Tap {
  std::int64_t input = 0, output = 0;
  double weight = 1;
};

// `scale` is how much larger the output is, where the call says so; 0: the sizes say it.
std::vector<Tap> taps(const Mode& mode, bool align_corners, double scale, std::int64_t input, std::int64_t output);

// Along dimension `at` of numbers of this shape, whose size there becomes `size`. `transposed` adds to the inputs what the
// outputs hold: the gradient.
Numbers resample(const Numbers& numbers, std::vector<std::int64_t>& shape, std::size_t at, std::int64_t size,
                 const std::vector<Tap>& taps, bool transposed);

}  // namespace meshwright
