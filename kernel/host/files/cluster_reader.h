// Reads a cluster as it stands in a plan (plan_json.h: cluster_json).
#pragma once

#include <cstdint>

#include "files/json_place.h"
#include "meshwright/cluster.h"
#include "meshwright/dtype.h"

namespace meshwright::host {

// More devices than these are a mistake, and products of them stay within 64 bits.
inline constexpr std::int64_t kMostDevices = std::int64_t{1} << 30;

// What is wrong the place says (JsonPlace::fail). The cluster is valid.
Cluster read_cluster(const JsonPlace& place);

// "float32". What is no dtype the place says.
DType read_dtype(const JsonPlace& place);

}  // namespace meshwright::host
