// The nearest plan that torchtitan can run, and the fields of its configuration.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework_plan.h"
#include "meshwright/result.h"

namespace meshwright::titan {

// A plan with what torchtitan alone has.
struct TitanPlan {
  framework::FrameworkPlan plan;        // priced as this
  std::int64_t replicas = 1;            // of dp: whole copies of the parameters
  std::int64_t shards = 1;              // of dp: what FSDP shards over
  bool reshards = true;                 // FSDP: parameters are dropped after the forward, and gathered again
  std::string activation_mode = "none"; // or "selective", "full"
};

// Errors: those of nearest_degrees.
Result<TitanPlan> nearest_plan(const framework::PlanReading& plan);

// By PyTorch's name, of one of ours; "" of one that it has not.
std::string schedule_name(const std::string& id);

// The split that torchtitan makes of these settings (generate_llm_fqn_per_model_part): layers by part of the model; nothing where it refuses.
struct LayerSplit {
  std::int64_t per_stage = 1, first_less = 0, last_less = 0;
};
std::optional<std::vector<std::int64_t>> layers_of_split(std::int64_t layers, std::int64_t groups, const LayerSplit& split);
// Settings that split so; nothing where none do.
std::optional<LayerSplit> split_of_layers(const std::vector<std::int64_t>& layers, std::int64_t groups);

using Fields = std::vector<std::pair<std::string, std::string>>;  // names, and values as Python has them
Fields training_fields(const framework::PlanReading& plan, const TitanPlan& made);
Fields parallelism_fields(const framework::PlanReading& plan, const TitanPlan& made);

}  // namespace meshwright::titan
