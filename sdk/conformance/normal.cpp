// Compiled with -ffast-math, by which the compiler may take the logarithms and cosines of several numbers at once (libmvec). They
// differ from those of single ones by some units in the last place of a double, which the rounding to float hides.
#include "normal.h"

#include <cmath>
#include <numbers>

namespace meshwright {

void make_normal(double* __restrict radii, const double* __restrict turns, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) radii[i] = std::sqrt(-2 * std::log(radii[i])) * std::cos(2 * std::numbers::pi * turns[i]);
}

}  // namespace meshwright
