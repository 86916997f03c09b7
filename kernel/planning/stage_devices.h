// Which devices of a cluster a stage of a pipeline gets, and what joins one stage to the next: stages of as many devices each, one behind the other.
#pragma once

#include <cstdint>

#include "meshwright/cluster.h"
#include "meshwright/result.h"

namespace meshwright {

// The devices of one stage as a cluster of their own. Errors: bad_input if the devices don't divide evenly, or a stage would be a part of several servers.
Result<Cluster> cluster_of_stage(const Cluster& cluster, std::uint32_t stages);

struct StageLink {
  double latency_seconds = 0;
  double seconds_per_byte = 0;  // of one device's, while all of its stage send
};

// The slowest link between a device of a stage and the one at its place in the next stage.
StageLink link_between_stages(const Cluster& cluster, std::uint32_t stages);

}  // namespace meshwright
