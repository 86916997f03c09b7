// Cuts a model into the stages of a pipeline: each becomes a graph of its own (stages.h).
//
// What depends on no parameter (masks, positions, what is drawn) crosses no border: each stage that needs it makes it by itself, from
// the inputs of the user, which all stages are fed. Everything else is in one stage, and what later stages use of it is sent to
// each of them by the stage that makes it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/plan.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright {

struct CutModel {
  std::vector<Graph> graphs;  // by stage; values and nodes have the names that they have in the model
  std::vector<StageBoundary> boundaries;
  std::vector<SharedParameter> shared;

  [[nodiscard]] StagePart part_of(std::uint32_t stage) const;
};

// By value of the graph: whether it is a parameter, or made of one.
std::vector<bool> depends_on_parameters(const Graph& graph);

// `stage_of`: of each node that depends on parameters; never falls from a node to those that use it. User outputs are left out: while a pipeline trains nobody reads
// them. Errors: bad_input, naming it, for a value that has no gradient and would have to cross (the choice of a router), a buffer that one
// stage changes and another one reads, and a stage without nodes.
Result<CutModel> cut_model(const Graph& graph, const std::vector<std::uint32_t>& stage_of, std::uint32_t stages);

// By name of a node: the first of these stages that has it.
std::map<std::string, std::uint32_t> stages_by_node(std::span<const Plan> stages);

// Notes where what crosses has the batch, by the atoms of the whole model.
void find_batches(const ModelAnalysis& whole, std::vector<StageBoundary>& boundaries);

}  // namespace meshwright
