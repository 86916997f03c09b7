// What a user could change so that a plan fits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/plan_options.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

// The single changes that may save memory, those that cost least first; of several of one kind the smallest that is estimated
// to do. Estimates scale what the smallest plan holds at its peak. A change that is estimated not to do is left out.
struct SuggestionInput {
  const PlanOptions& options;
  const FittedPlan* smallest = nullptr;  // of the plans that do not fit; null if none is known
  std::int64_t budget_bytes = 0;
  std::int64_t batch = 1;  // of a whole step
  std::int64_t microbatches = 1;
  bool limits_zero = false;  // [search] zero keeps some of a parameter whole
  bool limits_mesh = false;
  bool is_fp32 = false;
};
std::vector<Suggestion> suggestions(const SuggestionInput& input);

// Tries the first few, each on the mesh of the smallest plan: "with train.microbatches=4 a plan fits: 61.2 GiB on mesh 8, 812.400
// ms a step", or that none of these does; and names the others with their estimates. So a refusal takes about as long
// again as what was asked for. `plan` plans.
std::string suggestions_text(const std::vector<Suggestion>& suggestions,
                             const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan);

}  // namespace meshwright::host
