// Of a placement that leaves devices idle, one that costs no more and has a use for them: several answers of a problem can be as good as each other, and a plan needs one in which each device has a stage.
#pragma once

#include <cstdint>

#include "meshwright/placement.h"

namespace meshwright {

// How many devices the stages have together.
std::int64_t devices_of(const PlacementAnswer& answer);

// Cuts stages in two, the longest first and where its parts are most alike, each part with as many replicas and as high a degree as the whole had, as long as there are devices for it among `devices` and the
// problem's objective becomes no larger. Devices may be left; the answer's status and objective stay true. Nodes must follow each other in the order of data, as those of a line do.
PlacementAnswer with_idle_devices_used(const PlacementProblem& problem, PlacementAnswer answer, std::int64_t devices);

}  // namespace meshwright
