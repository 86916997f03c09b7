// A part of a cluster as a cluster of its own: devices that follow each other, with the links that join them.
#pragma once

#include <cstdint>
#include <string>

#include "meshwright/cluster.h"
#include "meshwright/result.h"

namespace meshwright {

// The first `devices` of the cluster. Levels are cut at what the part has, and those that join nothing in it are left out. Errors: bad_input for more devices than there are, and for
// devices that are neither whole servers nor an even part of one, or that leave a group of a level incomplete; the message names the nearest numbers that do.
Result<Cluster> cluster_part(const Cluster& cluster, std::int64_t devices);

// `devices` of them from `first` on, which need not be an even part of a server. Errors: bad_input where they begin or end within a server or a group of a level and reach beyond it, and for unlike ones.
Result<Cluster> cluster_range(const Cluster& cluster, std::int64_t first, std::int64_t devices);

// A part of a cluster among its others: "8 x A100-80GB"; where another one has such devices, and is another cluster (its links may differ), "8 x A100-80GB of 'slow_links'".
std::string part_text(const Cluster& cluster, const Cluster& part);

// All of its parts so, or of a cluster without parts its devices.
std::string parts_text(const Cluster& cluster);

}  // namespace meshwright
