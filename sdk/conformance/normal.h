// Normally distributed numbers, many at a time.
#pragma once

#include <cstddef>

namespace meshwright {

// Box and Muller 1958: each radius, drawn evenly from (0, 1], and the turn beside it, from [0, 1), become a number of mean 0
// and deviation 1, which takes the radius' place.
void make_normal(double* radii, const double* turns, std::size_t count);

}  // namespace meshwright
