// A product as a launch of this backend's own kernel: what a driver without a library does in its place, and what the
// recording driver computes.
#pragma once

#include "driver.h"

namespace meshwright::cuda {

// Its workspace is not in what the launch writes.
Launch launch_of(const Product& product);

}  // namespace meshwright::cuda
