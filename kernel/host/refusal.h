// Why no plan fits, and what would.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "pipeline.h"
#include "plan_options.h"

namespace meshwright::host {

// What binds on each mesh, the smallest budget for which a plan is known, the bound below which none exists, and what
// fills the peak of the smallest plan (`smallest`, null if none is known).
std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t budget_bytes);

// The single changes that may save memory, those that cost least first.
struct SuggestionInput {
  const PlanOptions& options;
  std::int64_t batch = 1;  // of a whole step
  std::int64_t microbatches = 1;
  bool limits_zero = false;  // [search] zero keeps some of a parameter whole
  bool limits_mesh = false;
  bool is_fp32 = false;
};
std::vector<Suggestion> suggestions(const SuggestionInput& input);

// "with train.microbatches=4 a plan fits: 61.20 GiB on mesh 8, 812.400 ms a step" for each that fits, or that none does.
// Of several changes of one kind the first that fits is enough. `plan` plans.
std::string suggestions_text(const std::vector<Suggestion>& suggestions,
                             const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan);

}  // namespace meshwright::host
