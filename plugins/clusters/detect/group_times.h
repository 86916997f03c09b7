// What all-reduces among groups say of a level's links.
#pragma once

#include <cstddef>
#include <vector>

#include "hierarchy.h"
#include "meshwright/cluster.h"
#include "recorded_links.h"

namespace meshwright {

// The bus bandwidths (MAP §4.2: bytes / seconds × 2(n-1)/n) of the groups that consist of whole groups of the level inside, into `levels`,
// which are those of the hierarchy. Where all devices of a group were measured, the largest all-reduce says how many links it used at once:
// that makes `ganged` and `sharers`. Returns how many measurements are of other groups and were not used.
std::size_t add_group_times(const std::vector<GroupTime>& times, const Hierarchy& hierarchy, std::vector<LinkLevel>& levels);

}  // namespace meshwright
