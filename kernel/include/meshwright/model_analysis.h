// What follows from a model alone, whatever the cluster and the plan: made once, kept, and handed on by reference. Nobody
// behind it atomizes or differentiates.
#pragma once

#include <memory>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/backward_memory.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/training_graph.h"

namespace meshwright {

struct TrainingAnalysis {
  TrainingGraph training;  // the forward, and the backward derived from it
  AtomizedGraph atoms;     // of training.graph: the forward's are those of ModelAnalysis, what has no share in them included
  BackwardMemory memory;   // what the backward of each forward node keeps and holds
  std::vector<std::vector<NodeId>> backward_of;  // by node of the forward: the nodes of its gradient, in order; without sums over its uses
};

// Its copies share what they hold: plans of a model carry one.
struct ModelAnalysis {
  std::shared_ptr<const Graph> graph;          // the forward of one microbatch
  std::shared_ptr<const AtomizedGraph> atoms;  // of the forward
  std::shared_ptr<const TrainingAnalysis> backward;  // null if there is none
  Error no_backward;  // why: no loss, or an op on the way to it that states no gradient
};

// The training graph, or the forward where there is none, and its atoms.
inline const Graph& training_graph(const ModelAnalysis& model) { return model.backward ? model.backward->training.graph : *model.graph; }
inline const AtomizedGraph& training_atoms(const ModelAnalysis& model) { return model.backward ? model.backward->atoms : *model.atoms; }

// Errors: those of atomize. That the model can't be differentiated is none.
MESHWRIGHT_API Result<ModelAnalysis> analyze_model(std::shared_ptr<const Graph> graph, const OpTable& ops);
MESHWRIGHT_API Result<ModelAnalysis> analyze_model(Graph graph, const OpTable& ops);

}  // namespace meshwright
