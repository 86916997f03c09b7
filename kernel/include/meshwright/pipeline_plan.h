// A plan of several stages (decision 052): each stage is planned as a model of its own, and what joins them stands here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/model_analysis.h"
#include "meshwright/plan.h"
#include "meshwright/step_order.h"
#include "meshwright/training.h"

namespace meshwright {

inline constexpr const char* kPipelineFormat = "meshwright-pipeline";
inline constexpr int kPipelineFormatVersion = 1;

struct PipelinePlan {
  std::string model_path, model_hash;  // as in Plan
  ModelAnalysis model;                 // of one microbatch, uncut
  Cluster cluster;                     // all of it; that of a stage's plan is its part
  TrainingSettings training;           // that of a stage's plan has its order
  std::vector<UsedPlugin> plugins;
  std::string schedule;                // the id of what made the orders of the stages
  // Each with its part, along the model. Its devices are those of its group (groups_of_stages in stages.h), which are behind those of the group before.
  std::vector<Plan> stages;
  GroupOrders orders;  // of devices that several stages share
  std::vector<StageBoundary> boundaries;
  std::vector<SharedParameter> shared;
  std::int64_t budget_bytes = 0;

  double step_seconds = 0;  // simulated (pipeline_step.h)
  double bubble = 0, imbalance = 0, communication = 0, start = 0;  // as in PipelineStep
  std::vector<double> busy_seconds;                                // by stage
  std::vector<std::int64_t> in_flight;                             // by stage: microbatches at most
  std::vector<std::int64_t> peak_bytes;                            // by group, of a device's stages together
  std::vector<std::string> notes;

  [[nodiscard]] std::uint32_t groups() const { return static_cast<std::uint32_t>(orders.empty() ? stages.size() : orders.size()); }
};

}  // namespace meshwright
