// What the CPU at hand takes for what the cost model asks about.
#pragma once

#include "meshwright/cluster.h"

namespace meshwright {

struct MeasurementSettings {
  int ranks = 1;                // threads that do the same at the same time
  double point_seconds = 0.02;  // of one point of a curve
};

// The device with its figures of float32 products, memory, elementwise work and launches replaced by measured ones; the
// rest of it, name and memory included, is as it was. Throws std::bad_alloc, std::system_error, and std::runtime_error
// where the library that multiplies refuses.
DeviceSpec measured_device(DeviceSpec device, const MeasurementSettings& settings);

}  // namespace meshwright
