// From seconds that were measured to a curve that a device may have.
#pragma once

#include <vector>

#include "meshwright/cluster.h"

namespace meshwright {

// The nearest seconds, by least squares, that never fall from one to the next: neighbours that do are replaced by their
// mean (pool adjacent violators; Barlow et al. 1972, chapter 1). A disturbed point so costs its neighbours little.
std::vector<double> never_falling(const std::vector<double>& seconds);

// A device's file has six digits, so seconds that are equal could fall when they are read back. Each is therefore at
// least this share above the one before it.
inline constexpr double kLeastRise = 1e-4;

// The rates at which work of these sizes, ascending, took these seconds, each more than 0. `validate` accepts the
// curve, and the curve that is read from a device's file.
RateCurve rising_curve(const std::vector<double>& sizes, const std::vector<double>& seconds);

}  // namespace meshwright
