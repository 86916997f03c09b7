// What no step of a model in so many stages takes less than, found without any search: the computing of each op as it is quickest on a stage's devices, spread over
// the stages as evenly as can be, and the wait for a pipeline to fill and to drain.
//
// Left out is whatever else takes time: collectives, what is sent between stages, updates, what runs again. A model that is cut offers its ops the strategies that it offers
// them whole, as far as sizes divide; nothing here proves that for sizes which don't.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"
#include "meshwright/schedule.h"
#include "meshwright/strategy.h"

namespace meshwright {

// What the devices of a stage compute an op in at least, in one microbatch. The two need not be of one strategy.
struct LeastComputing {
  double forward_seconds = 0;
  double whole_seconds = 0;  // forward and backward
  bool operator==(const LeastComputing&) const = default;
};

inline constexpr LeastComputing kNoLeast{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};

// Lowers `least`, by node of the graph, to what the problem's strategies take.
void take_least(const Problem& problem, std::vector<LeastComputing>& least);

// By node of the whole model, on the mesh on which it is quickest; `mesh`: "" for all that are worth trying, of at most `max_axes` axes. 0 for what is no variable of the search, or has
// no strategy. Errors: bad_input (the mesh, a setting of [search]); those of build_problem but infeasible.
Result<std::vector<LeastComputing>> least_computing(const PlanningContext& context, const Cluster& stage, const Config& search, const std::string& mesh, std::size_t max_axes);

// No step of the schedule, or in one stage, is shorter, wherever the graph's order is cut into its positions. `computing` is of the devices of one stage, in that order.
//
// Some devices compute as long as all do in the mean: m / p times what a microbatch takes, of m microbatches on p groups of devices. And a position computes all m microbatches, after the
// forwards of one at all positions before it, and where backwards are whole before its backwards there: what lies before a cut counts once, and what lies behind it m times, up to the next
// cut. The floor is the least number for which cuts can be found so that no position's path is longer; an op is never cut.
double least_step_seconds(const std::vector<LeastComputing>& computing, std::int64_t microbatches);
double least_step_seconds(const std::vector<LeastComputing>& computing, const PipelineSchedule& schedule);
// Where stages have unlike devices: by position of the schedule, of the devices there.
double least_step_seconds(std::span<const std::vector<LeastComputing>* const> computing, const PipelineSchedule& schedule);

}  // namespace meshwright
