// Whether a plan's ranks compute what one device computes, tried on simulated ranks.
#pragma once

#include <variant>

#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "plugins/plugin_host.h"
#include "plugins/program_source.h"
#include "verify.h"

namespace meshwright::host {

struct VerifyOptions {
  std::int64_t steps = 1;
  bool exact = false;
  bool shrunk = false;  // whether the plan is of a smaller model than its file (shrink_plan.h): of that, what has another size is drawn
};

// Runs so many steps on the `reference` backend, all stages together, in float32 (with a warning where the plan computes in half precision). Weights
// and buffers come from the model's file where it has them and is as it was when it was planned. Errors: those of
// make_program, of joint_order (stages.h) and of the backend.
//
// `exact`: in float64, and each element must be right within 1e-9 of the largest in its row. Rows of gradients below a
// millionth of the model's largest gradient are held against that millionth, since rounding is all that the smallest have.
Result<Verification> verify_plan(std::variant<Plan, PipelinePlan> plan, const ProgramTools& tools, PluginHost& host, const VerifyOptions& options);

}  // namespace meshwright::host
