// What every function is given that plans or makes programs: the model, how it is trained, and what prices and converts it. What
// varies during a search (a mesh, a filter, a budget) is an argument beside it.
#pragma once

#include "meshwright/conversion.h"
#include "meshwright/cost.h"
#include "meshwright/model_analysis.h"
#include "meshwright/op.h"
#include "meshwright/stage_part.h"
#include "meshwright/training.h"

namespace meshwright {

// All that it refers to outlives it.
struct PlanningContext {
  const ModelAnalysis& model;
  const TrainingSettings& training;
  const OpTable& ops;
  const CostProfile& profile;
  const ConversionSearch& conversions;
  const StagePart* part = nullptr;  // of the stage of a pipeline that the model is; null: it is whole

  [[nodiscard]] const Graph& graph() const { return *model.graph; }
  [[nodiscard]] const AtomizedGraph& atoms() const { return *model.atoms; }
};

}  // namespace meshwright
