// What the backward of each node keeps and holds, on one device: from it follow the search's memory terms on any mesh.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/training_graph.h"

namespace meshwright {

// A storage that is resident at the moment at which the backward of a node holds most. On a mesh it is sharded as those operands
// and results of the node are that have its shape.
struct BackwardStorage {
  std::int64_t bytes = 0;
  std::vector<std::uint32_t> operands, results;  // ports of the forward node
};

struct NodeBackward {
  bool view = false;  // the results share the storage of operand 0
  std::vector<bool> saves_operand, saves_result;  // which of them its backward uses
  // Which of the saved operands and results are still needed at the moment at which the backward holds most.
  std::vector<bool> holds_operand, holds_result;
  std::vector<bool> passes_gradient;    // by operand: its gradient shares the storage of a result's gradient
  bool works = false;  // Its backward computes something: not all of it are views.
  // What is resident at that moment besides what is saved: the results' gradients, intermediate values, the operands' gradients.
  std::vector<BackwardStorage> fullest;
};

struct BackwardMemory {
  std::vector<NodeBackward> nodes;  // as graph.nodes
};

// `training` is what `graph` becomes (differentiate).
MESHWRIGHT_API BackwardMemory backward_memory(const Graph& graph, const TrainingGraph& training, const OpTable& ops);

}  // namespace meshwright
