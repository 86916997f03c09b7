// Between two layouts without a search.
#pragma once

#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

// Axis by axis: what is sharded or partial first, the innermost axis first, then what is cut. For what no plan says: a buffer that
// is kept in one layout and used in several, a gradient on which the loss does not depend.
Result<std::vector<Move>> straight_way(const ShardedType& from, const Layout& to, const Mesh& mesh, const CostProfile& profile);

}  // namespace meshwright::torch
