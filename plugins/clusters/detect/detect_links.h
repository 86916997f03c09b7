// From what was measured to levels of links, as a cluster's file has them.
//
// A level's bandwidth and latency are medians: of the pairs that it joins and no inner level does, or, where devices have partners, of partners. Where
// those are of several kinds the slowest kind counts that is no exception (more than a third of the pairs are not faster), as every
// axis is priced by its slowest link (decision 001). Pairs that are slower than that by more than noise are named.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/cluster.h"
#include "recorded_links.h"

namespace meshwright {

// `devices_per_node`: of a server, the group of some level; 0: servers are what the outermost level joins if it is at most a quarter as fast as the
// one inside, else all is one server. `as_started`: levels are of the devices as they are numbered (as_started.h), those of a server are a level of their
// own, and bandwidths that are spread over a range count as the least. Errors: bad_input, also where they are spread without being of any kind.
Result<DetectedLinks> detect_links(const RecordedLinks& recorded, std::int64_t devices_per_node, bool as_started = false);

}  // namespace meshwright
