// A model as a chain of stages: MAP's network linearization (arXiv 2302.02599, §5.2.2 to §5.2.4, Algorithm 2).
//
// Nodes are gone through in their order, with a pool of what those so far still have to hand to others. A stage ends at
// a node that leaves nothing else in the pool: all that later stages use of it and of those before it are the results of
// that node. Common nodes (Definition 5.3: without a gradient, such as masks and positions) don't enter the pool, so they
// may cross any border; what they make is no part of the chain.
//
// MAP keeps an op that works in place, or a communication, together with its parent. Here nothing is in place: an op that
// could be is the only user of a value, and either a view of it or the last that needs it, since no backward does.
// Communications are no nodes but conversions on edges, so they end no stage, and belong to who yields what they convert.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/model_analysis.h"

namespace meshwright {

struct ModelStage {
  std::vector<NodeId> nodes;     // of the forward, ascending; common ones among them
  std::vector<ValueId> results;  // the chain's value behind it: what later stages use, of its last node. None of the last stage
};

struct ModelChain {
  std::vector<ModelStage> stages;       // Each node is in one of them, and all nodes of one are before those of the next.
  std::vector<std::uint32_t> stage_of;  // by node
  std::vector<bool> is_common;          // by node: none of its results has a gradient
  std::vector<ValueId> owner;           // by value of the forward: of the storage that it lies in (saved.h)
};

// `model` has a backward. Where nodes hand each other more than one value at a time all the way (an encoder's output that
// every layer of a decoder uses), all of that is one stage. A graph without nodes has no stages.
MESHWRIGHT_API ModelChain linearize(const ModelAnalysis& model, const OpTable& ops);

}  // namespace meshwright
