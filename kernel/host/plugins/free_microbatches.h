// Into how many microbatches a step cuts the batch, where the planner chooses ([train] microbatches = "free").
#pragma once

#include <functional>

#include "config/plan_options.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

// The plan with the number that makes the step shortest, and a note that says why it is this one. The batch's divisors are tried from 1 on, each by a search of its
// objective alone. More parts only add to what takes time without a budget (launches, gathers, smaller products), so once the bound of that is no less than the
// best objective, no more are tried. The best, and the next if it is nearly as good, are then planned as asked for. If nothing fits, the refusal is that of
// the largest number.
// `plan` plans. Errors: its own, of one part; what more parts refuse (ops that mix the samples of a batch) ends the trials.
Result<PlanOutcome> plan_with_free_microbatches(const PlanOptions& options, const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan);

}  // namespace meshwright::host
