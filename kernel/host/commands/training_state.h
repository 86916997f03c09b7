// What training keeps from step to step, whole, as a file of `meshwright run --save` has it: parameters, what the optimizer keeps of them, buffers that the model
// changes, and how many steps were taken. It says nothing of meshes, layouts and stages: any plan of the model goes on from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "commands/runnable_plan.h"
#include "files/safetensors.h"
#include "meshwright/executable.h"
#include "meshwright/graph.h"
#include "runner.h"

namespace meshwright::host {

struct TrainingState {
  std::int64_t steps = 0;  // that were taken
  std::uint32_t seed = 0;  // of inputs, and of weights that were drawn
  std::map<ValueId, Tensor> tensors;           // parameters and buffers, by value of the model
  std::map<ValueId, OptimizerState> states;    // by parameter
};

// As the last step left it. `tensors` of a parameter that several stages have are those of the first. Errors: those of fetch.
Result<TrainingState> fetch_training_state(const RunnablePlan& plan, const Runner& runner);

// Named as the model names them: "h.0.attn.weight", "optimizer/first/h.0.attn.weight", "optimizer/second/...". Errors: bad_input for two tensors of one name.
Result<Safetensors> to_safetensors(const RunnablePlan& plan, const TrainingState& state);
// The other way. Errors: bad_input that names `file` and what does not fit: not written by `run --save`; of another optimizer; of another model: a tensor that is missing, of
// another type, or that the model does not have.
Result<TrainingState> from_safetensors(const RunnablePlan& plan, Safetensors content, const std::string& file);

}  // namespace meshwright::host
