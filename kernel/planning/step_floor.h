// What no step of a model in so many stages takes less than, found without any search: the computing of each op as it is quickest on a stage's devices, spread over
// the stages as evenly as can be, and the wait for a pipeline to fill and to drain.
//
// Left out is whatever else takes time: collectives, what is sent between stages, updates, what runs again. A model that is cut offers its ops the strategies that it offers
// them whole, as far as sizes divide; nothing here proves that for sizes which don't.
#pragma once

#include <string>

#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"
#include "meshwright/schedule.h"

namespace meshwright {

// Seconds in which the devices of one stage could compute the forward and the backward of one microbatch of the whole model, if every op had the strategy in which it computes
// least, on the mesh on which it does; `mesh`: "" for all that are worth trying, of at most `max_axes` axes. 0 where no mesh has strategies for all ops.
// Errors: bad_input (the mesh, a setting of [search]); those of build_problem but infeasible.
Result<double> least_compute_seconds(const PlanningContext& context, const Cluster& stage, const Config& search, const std::string& mesh, std::size_t max_axes);

// How many times the computing of one microbatch a step takes at least, however the model is cut into the schedule's stages.
//
// Some devices compute as long as all do in the mean: m / p times. Where backwards are whole, position s of V (along the model, m microbatches) takes m t_s, and one microbatch
// passes all positions before it twice; the average of these V paths in which every t_s counts alike is 1 / (1 - (1 - 1/m)^V) times the sum of all t_s, so that no cut is below that.
[[nodiscard]] double least_passes(const PipelineSchedule& schedule);

}  // namespace meshwright
