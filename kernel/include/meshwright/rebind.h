// A model with another batch, without a new export.
#pragma once

#include <cstdint>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"

namespace meshwright {

// The graph as it would have been exported with a batch of `batch`: the size of the first dimension of the first user
// input, and of whatever the sharding rules say is the same dimension, alone or merged with others. Sizes that stand in
// attributes follow (view, expand, zeros, arange).
// Errors: bad_input, naming the node or the value where the batch cannot be told from other dimensions, is fixed by the
// file (a constant of that size), or is cut by the op (a slice of some of the batch).
MESHWRIGHT_API Result<Graph> rebind_batch(const Graph& graph, const OpTable& ops, std::int64_t batch);

}  // namespace meshwright
