// Levels of the ranks as they were started, whatever order of them the links would like.
#pragma once

#include <cstdint>
#include <string>

#include "hierarchy.h"

namespace meshwright {

struct StartedHierarchy {
  Hierarchy hierarchy;      // the order is that of the numbers
  bool as_found = true;     // else levels join neighbours that are not alike, and the slowest links among them count
  std::string note = {};    // what was found instead; "" if nothing else was
};

// `found`: what find_hierarchy says of the links. If its groups are of neighbours it stays as it is; else there are groups of neighbours in the sizes that
// were found, or, where nothing was, one of all. `devices_per_node`: 0, or a group that must be there.
StartedHierarchy hierarchy_as_started(const LinkMatrix& links, const Result<Hierarchy>& found, std::size_t devices_per_node);

}  // namespace meshwright
