// What a plan's file says of its runner-up.
#pragma once

#include "files/json_place.h"
#include "meshwright/cluster.h"
#include "meshwright/runner_up.h"

namespace meshwright::host {

// On a mesh that covers the cluster, with each coefficient once, of a link with a level of the cluster, and factors within what is
// tried; else a problem.
RunnerUp read_runner_up(const JsonPlace& place, const Cluster& cluster);

}  // namespace meshwright::host
