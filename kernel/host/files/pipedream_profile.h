// PipeDream's profiles: a line for each node, "ID -- DESCRIPTION -- forward_compute_time=MS, backward_compute_time=MS,
// activation_size=BYTES, parameter_size=BYTES", then one for each edge, which begins with a tab: "ID -- ID". A size may
// be a list, "[1.0; 2.0]", which is added up; a node's line may end in " -- stage_id=N", which is not looked at.
#pragma once

#include <string_view>

#include "meshwright/placement.h"
#include "meshwright/result.h"

namespace meshwright::host {

// Without devices and bandwidth, and as placement_reader.h says without inputs and unread items. Error: bad_input with
// the line.
Result<ReplicaProblem> parse_pipedream_profile(std::string_view text);

}  // namespace meshwright::host
