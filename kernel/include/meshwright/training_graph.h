// The trainable program: the forward graph with its backward behind it, derived from what op families state.
#pragma once

#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"

namespace meshwright {

struct TrainingGraph {
  Graph graph;              // the forward's nodes first, as they were, then the backward's
  NodeId first_backward = 0;
  std::vector<ValueId> gradients;         // by value of the forward: its gradient, or kNoId
  std::vector<NodeId> forward_of;         // by node from first_backward on: whose gradient it is part of (kNoId: the seed, a sum)
  // By node of the forward: for each operand, what this use adds to its gradient, or kNoId.
  std::vector<std::vector<ValueId>> contributions;
  std::vector<ValueId> saved;             // values of the forward that the backward uses; parameters and inputs too
};

// Errors: bad_input if there is no loss, or an op on the way to it states no gradient (it is named).
MESHWRIGHT_API Result<TrainingGraph> differentiate(const Graph& forward, const OpTable& ops);

}  // namespace meshwright
