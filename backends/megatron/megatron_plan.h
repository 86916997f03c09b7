// The nearest plan that Megatron-LM can run, and its arguments.
#pragma once

#include <string>
#include <vector>

#include "framework_plan.h"
#include "meshwright/result.h"

namespace meshwright::megatron {

// What Megatron-LM's own checks would refuse is replaced by what is nearest, and noted. Errors: those of nearest_degrees.
Result<framework::FrameworkPlan> nearest_plan(const framework::PlanReading& plan);

struct Argument {
  std::string text;    // "--tensor-model-parallel-size 2"
  std::string remark;  // what it was read off; "": the text says it
};
std::vector<Argument> arguments_of(const framework::PlanReading& plan, const framework::FrameworkPlan& made);

// "Ett|tt|ttL" of layers by part of the model: E is the embedding, L the loss.
std::string layout_text(const std::vector<std::int64_t>& layers);

}  // namespace meshwright::megatron
