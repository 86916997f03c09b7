// What follows from a model alone, whatever the cluster and the plan. It is made once and handed on: no later stage atomizes or
// differentiates again.
#pragma once

#include <memory>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/backward_memory.h"
#include "meshwright/export.h"
#include "meshwright/fusion.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/training.h"
#include "meshwright/training_graph.h"

namespace meshwright {

struct TrainingAnalysis {
  TrainingGraph training;  // the forward, and the backward derived from it
  AtomizedGraph atoms;     // of training.graph; values of the forward have the atoms that ModelAnalysis::atoms gives them
  BackwardMemory memory;   // what the backward of each forward node saves and holds
  std::vector<std::vector<NodeId>> backward_of;  // nodes_of_gradients(training)
};

// Copies share what they point to: every plan of a model carries one.
struct ModelAnalysis {
  std::shared_ptr<const Graph> graph;          // the forward of one microbatch
  std::shared_ptr<const AtomizedGraph> atoms;  // of the forward
  std::shared_ptr<const TrainingAnalysis> backward;  // null if there is none
  Error no_backward;  // why `backward` is null: there is no loss, or an op on the way to it states no gradient
  std::shared_ptr<const std::vector<FusedCall>> fused;  // by node of training_graph: what a compiler would make of it
};

// The training graph and its atoms; of a model without a backward the forward.
inline const Graph& training_graph(const ModelAnalysis& model) { return model.backward ? model.backward->training.graph : *model.graph; }
inline const AtomizedGraph& training_atoms(const ModelAnalysis& model) { return model.backward ? model.backward->atoms : *model.atoms; }

// Whether the gradient of a value is computed; of a model without a backward, whether it would be.
MESHWRIGHT_API bool has_gradient(const ModelAnalysis& model, ValueId value);
// Whether it is computed from the gradient of this node's results too: one of the addends is this operand's.
MESHWRIGHT_API bool contributes(const ModelAnalysis& model, NodeId node, std::uint32_t operand);

// What a node of training_graph leaves to the kernel that it is a part of: nothing, unless the settings say that a compiler fuses.
MESHWRIGHT_API const FusedCall& fused_call(const ModelAnalysis& model, const TrainingSettings& training, NodeId node);

// The same of the node that makes the sum number `i` of the gradients of a value's uses.
MESHWRIGHT_API const FusedCall& fused_sum(const ModelAnalysis& model, const TrainingSettings& training, ValueId value, std::size_t i);

// Errors: those of atomize. A model that cannot be differentiated is no error: it has no `backward`.
MESHWRIGHT_API Result<ModelAnalysis> analyze_model(std::shared_ptr<const Graph> graph, const OpTable& ops);
MESHWRIGHT_API Result<ModelAnalysis> analyze_model(Graph graph, const OpTable& ops);

}  // namespace meshwright
