// What a plan takes that a written file stands for (EmittedFile::stands_for), beside the plan that the file was made from: both for the same model in the same microbatches, on
// the same cluster, within the same memory, simulated by the same clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"

namespace meshwright::host {

struct PlanPrice {
  double step_seconds = 0;
  std::int64_t peak_bytes = 0;  // of the fullest device
};

struct AskedPrice {
  PlanPrice plan;                 // that there is
  std::optional<PlanPrice> asked; // nothing: there is no such plan
  std::int64_t budget_bytes = 0;  // beyond which the asked one may be: then none that fits was found
  std::string refusal;            // why there is none, or none that fits
};

// `config` and `set` are those of the command, under what is asked for. Errors: plugin_failed; bad_input for a configuration that cannot be read. That there is no such plan is none.
Result<AskedPrice> price_asked(const AskedPlan& asked, const std::variant<Plan, PipelinePlan>& plan, const std::string& config, std::vector<std::string> set);

}  // namespace meshwright::host
