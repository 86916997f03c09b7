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
  // By node from first_backward on: the forward node to whose gradient it belongs; kNoId for the seed and for sums of
  // several uses' gradients.
  std::vector<NodeId> forward_of;
  // By node of the forward and by operand: the addend of the operand's gradient that comes from this node, or kNoId. Empty for
  // a node without a backward.
  std::vector<std::vector<ValueId>> contributions;
  // By value of the forward: the nodes that add up the gradients of its several uses, in order; the last one makes its gradient.
  std::vector<std::vector<NodeId>> sums;
  std::vector<ValueId> saved;             // values of the forward that the backward uses, parameters and inputs included
};

// The backward computes the gradients of the sources that require one, and nothing else: of a value from which no gradient
// reaches a source (zeros that are made like an activation, and what is computed from them) it has none.
// Errors: bad_input if there is no loss, or an op on the way to it states no gradient (it is named).
MESHWRIGHT_API Result<TrainingGraph> differentiate(const Graph& forward, const OpTable& ops);

// By node of the forward: the nodes of its gradient, in order. Sums of the gradients of several uses belong to no node.
MESHWRIGHT_API std::vector<std::vector<NodeId>> nodes_of_gradients(const TrainingGraph& training);

}  // namespace meshwright
