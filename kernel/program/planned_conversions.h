// A plan's stored conversions, held against its variables and their layouts. Private to the kernel.
#pragma once

#include <map>
#include <string>

#include "meshwright/atoms.h"
#include "meshwright/plan.h"

namespace meshwright {

// Errors: bad_input, naming the value, where a conversion leads from or to a layout that its ends don't have, through one that
// the value can't have, or where its bytes or seconds are not those of its moves. What a move takes on a link is not computed
// again: that depends on what the cluster was profiled with. `values`: the graph's, by the names that the plan has for them.
Status check_conversions(const Plan& plan, const AtomizedGraph& atoms, const std::map<std::string, ValueId, std::less<>>& values);

}  // namespace meshwright
