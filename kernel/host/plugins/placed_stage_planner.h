// [search] inter = "pipedream", "max_load", "piper" or any other plugin that solves placement problems (placement.h): a model in the stages that it chooses, under the clock that all plans have.
#pragma once

#include "config/plan_options.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace meshwright::host {

// The problem that the solver knows (of load, replicas, or layers: the first one that it does not refuse as another kind) is made of the model (planning/placed_stages.h) for each number of samples into which a
// step may be cut, and the stages of each answer are planned: by 1F1B, or the schedule that is given. A stage's replicas share the batch of a microbatch, and the weights of a stage are in shards over its degree
// of tensor parallelism alone. What plans say is all that is proven: a solver's optimum is that of its own problem. Errors: bad_input for options and keys that say what the solver does; of no number of samples
// stages that can be planned, with the reason of each; plugin_failed.
Result<PlanOutcome> plan_placed_stages(const PlanOptions& options, PluginHost& host);

}  // namespace meshwright::host
