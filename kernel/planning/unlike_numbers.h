// Which numbers of a cluster's devices stages may have that have unlike numbers of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/cluster.h"
#include "stage_line.h"

namespace meshwright {

// The devices that a stage of so many may have: half as many as in the mean to twice as many, from each place at which such a part of the cluster begins. `considered`: numbers of stages, ascending; where it is one alone
// any number of devices is taken, else those that stages have if they have as many each.
std::vector<DeviceRange> unlike_ranges(const Cluster& cluster, const std::vector<std::int64_t>& considered, std::int64_t stages);

// Devices of each stage, all ways to give it some of these ranges so that all devices are taken in their order; so many ways at most.
std::vector<std::vector<std::int64_t>> device_lists(const std::vector<DeviceRange>& ranges, std::int64_t stages, std::int64_t devices, std::size_t most);

}  // namespace meshwright
