#include "meshwright/model_analysis.h"

#include <numeric>
#include <set>

namespace meshwright {

namespace {

// The atoms of the trainable graph. Planning speaks of the forward's atoms only: these stay, and what may be padded there,
// may be in the backward too, since padded gradients are zero where padded values are.
Result<AtomizedGraph> atomize_training(const TrainingGraph& training, const AtomizedGraph& forward, const OpTable& ops) {
  std::vector<ValueId> like(training.graph.values.size());
  std::iota(like.begin(), like.end(), ValueId{0});
  const auto alike = [&](ValueId gradient, ValueId value) {
    if (gradient != kNoId && like[gradient] == gradient) like[gradient] = like[value];
  };
  for (ValueId id = 0; id < training.gradients.size(); ++id) alike(training.gradients[id], id);
  for (NodeId id = 0; id < training.contributions.size(); ++id) {
    const std::vector<ValueId>& contributions = training.contributions[id];
    for (std::size_t i = 0; i < contributions.size(); ++i) alike(contributions[i], training.graph.nodes[id].operands[i].value);
  }
  Result<AtomizedGraph> atoms = atomize_further(training.graph, forward, ops, like);
  if (!atoms) return atoms;
  std::set<std::uint32_t> paddable;
  for (ValueId id = 0; id < forward.values.size(); ++id) {
    for (std::size_t atom = 0; atom < forward.values[id].sizes.size(); ++atom) {
      if (forward.values[id].paddable[atom]) paddable.insert(atoms->classes[id][atom]);
    }
  }
  for (ValueId id = 0; id < atoms->values.size(); ++id) {
    AtomShape& shape = atoms->values[id];
    for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) shape.paddable[atom] = paddable.contains(atoms->classes[id][atom]);
  }
  return atoms;
}

Result<TrainingAnalysis> analyze_training(const Graph& graph, const AtomizedGraph& atoms, const OpTable& ops) {
  Result<TrainingGraph> training = differentiate(graph, ops);
  if (!training) return training.error();
  Result<AtomizedGraph> further = atomize_training(*training, atoms, ops);
  if (!further) return further.error();
  BackwardMemory memory = backward_memory(graph, *training, ops);
  std::vector<std::vector<NodeId>> backward_of = nodes_of_gradients(*training);
  return TrainingAnalysis{std::move(*training), std::move(*further), std::move(memory), std::move(backward_of)};
}

// What is needed after the graph has run, besides its outputs: the gradients of parameters and inputs.
std::vector<ValueId> gradients_of_sources(const TrainingGraph& training) {
  std::vector<ValueId> gradients;
  for (const Source& source : training.graph.sources) {
    if (training.gradients[source.value] != kNoId) gradients.push_back(training.gradients[source.value]);
  }
  return gradients;
}

std::vector<FusedCall> fuse(const ModelAnalysis& model) {
  if (!model.backward) return fuse(*model.graph, *model.atoms, static_cast<NodeId>(model.graph->nodes.size()), {});
  const TrainingGraph& training = model.backward->training;
  return fuse(training.graph, model.backward->atoms, training.first_backward, gradients_of_sources(training));
}

}  // namespace

const FusedCall& fused_call(const ModelAnalysis& model, const TrainingSettings& training, NodeId node) {
  static const FusedCall kAlone;
  return training.compile && model.fused && node != kNoId ? (*model.fused)[node] : kAlone;
}

const FusedCall& fused_sum(const ModelAnalysis& model, const TrainingSettings& training, ValueId value, std::size_t i) {
  const bool known = model.backward && i < model.backward->training.sums[value].size();
  return fused_call(model, training, known ? model.backward->training.sums[value][i] : kNoId);
}

bool has_gradient(const ModelAnalysis& model, ValueId value) {
  return model.backward ? model.backward->training.gradients[value] != kNoId : model.graph->values[value].requires_gradient;
}

bool contributes(const ModelAnalysis& model, NodeId node, std::uint32_t operand) {
  if (!model.backward) return model.graph->values[model.graph->nodes[node].operands[operand].value].requires_gradient;
  const std::vector<ValueId>& contributions = model.backward->training.contributions[node];
  return !contributions.empty() && contributions[operand] != kNoId;
}

Result<ModelAnalysis> analyze_model(std::shared_ptr<const Graph> graph, const OpTable& ops) {
  Result<AtomizedGraph> atoms = atomize(*graph, ops);
  if (!atoms) return atoms.error();
  ModelAnalysis analysis{std::move(graph), std::make_shared<const AtomizedGraph>(std::move(*atoms)), nullptr, {}, nullptr};
  Result<TrainingAnalysis> backward = analyze_training(*analysis.graph, *analysis.atoms, ops);
  if (backward) analysis.backward = std::make_shared<const TrainingAnalysis>(std::move(*backward));
  else analysis.no_backward = backward.error();
  analysis.fused = std::make_shared<const std::vector<FusedCall>>(fuse(analysis));
  return analysis;
}

Result<ModelAnalysis> analyze_model(Graph graph, const OpTable& ops) {
  return analyze_model(std::make_shared<const Graph>(std::move(graph)), ops);
}

}  // namespace meshwright
