// What a framework that takes degrees of parallelism would have to be told of a plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "plan_layers.h"
#include "stage_use.h"

namespace meshwright::framework {

// How most elements of parameters are kept.
struct ZeroUse {
  ZeroStage stage = ZeroStage::none;
  std::int64_t copies = 1;  // of each shard, on devices of data and context parallelism
  bool regather = false;
  double share = 1;         // of all elements
};

struct PlanReading {
  std::string model;            // its name
  std::int64_t devices = 1;     // of the cluster
  std::int64_t groups = 1;      // of devices, each with the same number of stages
  std::int64_t chunks = 1;      // stages of each
  std::string schedule;         // "" of one stage
  std::int64_t batch = 1;       // samples of a step
  std::int64_t sequence = 0;    // positions of a sample; 0: it is no row of tokens
  std::int64_t heads = 0;       // of attention; 0: nobody can say
  std::int64_t experts = 0;     // of the model, in each layer that has any
  TrainingSettings training;
  DType dtype = DType::float32; // of parameters
  bool is_free_order = false;   // [train] order says how the microbatches of one stage follow each other
  StageUse use;                 // as of most computing; its seconds are of all stages
  std::vector<std::uint32_t> unlike;  // stages with other degrees
  ZeroUse zero;
  PlanLayers layers;

  [[nodiscard]] std::int64_t parts() const { return groups * chunks; }
  [[nodiscard]] std::int64_t microbatch() const { return batch / training.microbatches; }
};

// Errors: bad_input for stages that are not as many on each group of devices.
Result<PlanReading> read_plan(const Plan& plan);
Result<PlanReading> read_plan(const PipelinePlan& plan);

}  // namespace meshwright::framework
