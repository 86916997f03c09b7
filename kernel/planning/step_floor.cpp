#include "step_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "meshwright/mesh.h"
#include "search_settings.h"

namespace meshwright {

namespace {

constexpr double kNoStrategy = std::numeric_limits<double>::infinity();

// Lowers `least`, by node of the graph, to what the problem's strategies take.
void take_least(const Problem& problem, std::vector<double>& least) {
  for (const Variable& variable : problem.variables) {
    if (variable.kind != VariableKind::node) continue;
    for (const Strategy& strategy : variable.set->strategies) least[variable.node] = std::min(least[variable.node], strategy.forward_seconds + strategy.backward_seconds);
  }
}

bool has_parts(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule.order, [](const std::vector<PipelineEvent>& order) {
    return std::ranges::any_of(order, [](const PipelineEvent& event) { return event.kind == PipelineEventKind::input_gradient; });
  });
}

}  // namespace

Result<double> least_compute_seconds(const PlanningContext& context, const Cluster& stage, const Config& search, const std::string& mesh, std::size_t max_axes) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (mesh.empty()) {
    shapes = candidate_shapes(stage, max_axes);
  } else {
    Result<std::vector<std::int64_t>> shape = parse_mesh_shape(mesh);
    if (!shape) return shape.error();
    shapes.push_back(std::move(*shape));
  }
  std::vector<double> least(context.graph().nodes.size(), kNoStrategy);
  for (const std::vector<std::int64_t>& shape : shapes) {
    const Result<Mesh> laid = make_mesh(stage, shape);
    if (!laid) return laid.error();
    const Result<StrategyFilter> filter = wanted_filter(search, *laid);
    if (!filter) return filter.error();
    const Result<Problem> problem = build_problem({context, *laid, *filter});
    if (problem) take_least(*problem, least);
    else if (problem.error().code != ErrorCode::infeasible) return problem.error();
  }
  double seconds = 0;
  for (const double of_node : least) seconds += of_node == kNoStrategy ? 0 : of_node;  // what depends on no parameter is no variable
  return seconds;
}

double least_passes(const PipelineSchedule& schedule) {
  const double microbatches = schedule.shape.microbatches, even = microbatches / schedule.shape.stages;
  if (has_parts(schedule)) return even;
  const double filled = 1 / (1 - std::pow(1 - 1 / microbatches, schedule.shape.positions()));
  return std::max(even, filled);
}

}  // namespace meshwright
