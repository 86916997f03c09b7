// A plan that was made for a tighter budget and is handed on to a larger one (`plan --known`), so that more memory never gives a slower plan.
#pragma once

#include "config/plan_options.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

// The plan of `options.known` takes the place of the outcome's where it fits and has a shorter step, or where nothing else was found. Its peak and
// its step are those of its program, whatever its file says; bounds are those of this search. Pins and other settings of [search] are not held against it.
// Errors: bad_input where it is of another model, mesh, training or cluster than what was planned for; those of reading and lowering it.
Status hand_on(const PlanOptions& options, PlanOutcome& outcome);

}  // namespace meshwright::host
