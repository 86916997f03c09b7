// One microbatch of a model's batch.
#pragma once

#include <cstdint>

#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"

namespace meshwright {

// The model with the m-th part of its batch. An op that couples the samples of a batch (batch norm's statistics, a
// contrastive loss) does something else to parts than to the whole; `allow_coupling` lets it.
// Errors: bad_input that names the batch and what it can be cut into, the node that couples, or why rebinding fails.
Result<Graph> cut_into_microbatches(Graph graph, const OpTable& ops, std::int64_t microbatches, bool allow_coupling);

}  // namespace meshwright
