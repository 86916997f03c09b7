#include "report/plan_figures.h"

#include <algorithm>

namespace meshwright::host {

namespace {

std::string meshes_of(const PipelinePlan& pipeline) {
  std::string text, last;
  for (const Plan& plan : pipeline.stages) {
    const std::string mesh = to_string(plan.mesh);
    if (mesh != last || text.empty()) text += (text.empty() ? "" : ", ") + mesh;
    last = mesh;
  }
  return text;
}

}  // namespace

PlanFigures figures_of(const PlanOutcome& outcome) {
  if (outcome.plan) {
    const Plan& plan = *outcome.plan;
    return {1, 1, "", plan.training.microbatches, to_string(plan.mesh), plan.step_seconds, plan.peak_bytes};
  }
  const PipelinePlan& plan = *outcome.pipeline;
  return {plan.stages.size(), plan.groups(), plan.schedule, plan.training.microbatches, meshes_of(plan), plan.step_seconds, std::ranges::max(plan.peak_bytes)};
}

}  // namespace meshwright::host
