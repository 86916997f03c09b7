// The plan of a model in a given number of pipeline stages.
//
//   cut (stage_balance.h, cut_model.h) → for each stage: the planner, on the stage's devices, with the order that the schedule gives it →
//   programs of all stages, held against each other → a step of all of them together (pipeline_step.h)
//
// Where a schedule has several chunks, each of them is a stage, and those of one group of devices share its memory: each is planned for all of it, and for a part if they
// don't fit together so. The cut is tried again, balanced by what its stages took, and with less work for a stage that does not fit. Each stage is planned for itself: its budget, ZeRO and recomputation are as for a model that is whole, and what its schedule holds in flight counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/pipeline_plan.h"
#include "meshwright/schedule.h"
#include "pipeline_comparisons.h"
#include "planner.h"
#include "stage_cut_wish.h"

namespace meshwright {

// All that it refers to outlives the call.
struct PipelineRequest {
  PlanningContext context;  // of the whole model
  const Cluster& cluster;
  const IntraSolver& solver;
  const Config& search;
  const CheckpointSolver* checkpoint = nullptr;
  const std::vector<Pin>& pins;
  std::string mesh;  // of each stage; "": all that are worth trying
  std::int64_t budget_bytes = 0;
  bool must_fit_device = false;
  PipelineSchedule schedule;
  std::string schedule_id;
  std::function<Result<Program>(const Plan&, const PlanningContext&)> lower;  // of one stage, or of the whole model
  bool usual = true;  // the plan is set beside usual ones
  StageCuts cuts = {};  // if they are given; else cuts are balanced by what stages take
  std::vector<std::int64_t> devices = {};  // by group of stages; empty: as many each
};

struct PipelineOutcome {
  std::optional<PipelinePlan> plan;
  std::string refusal;  // why there is none, by the first cut
  std::vector<PipelineComparison> comparisons;
  double strategies_seconds = 0, search_seconds = 0, comparisons_seconds = 0;  // of wall time
};

// What one of these devices may hold: what the user gave, or all of it.
std::int64_t budget_on(const PipelineRequest& request, const Cluster& devices);

// Errors: bad_input (a schedule of backwards in two parts, devices that don't divide, what cannot be cut), those of rank_plans. That nothing fits is none.
Result<PipelineOutcome> plan_pipeline(const PipelineRequest& request);

}  // namespace meshwright
