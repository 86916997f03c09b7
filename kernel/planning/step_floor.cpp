#include "step_floor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "meshwright/mesh.h"
#include "search_settings.h"

namespace meshwright {

namespace {

bool has_parts(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule.order, [](const std::vector<PipelineEvent>& order) {
    return std::ranges::any_of(order, [](const PipelineEvent& event) { return event.kind == PipelineEventKind::input_gradient; });
  });
}

constexpr int kHalvings = 60;  // of the range in which the longest path is looked for

// Whether the order can be cut into so many positions whose paths take at most so long. Each position takes as many ops as it can: what is left for the others can only become less.
bool can_be_cut(const std::vector<LeastComputing>& computing, std::uint32_t positions, double microbatches, bool parts, double longest) {
  double before = 0, own = 0, with_own = 0;  // before the position, of the position, and what counts at those behind it
  std::uint32_t used = 1;
  for (const LeastComputing& node : computing) {
    if (before + microbatches * (own + node.whole_seconds) > longest) {
      if (++used > positions) return false;
      before += std::exchange(with_own, 0);
      own = 0;
      if (before + microbatches * node.whole_seconds > longest) return false;
    }
    own += node.whole_seconds;
    with_own += parts ? node.forward_seconds : node.whole_seconds;
  }
  return true;
}

}  // namespace

void take_least(const Problem& problem, std::vector<LeastComputing>& least) {
  for (const Variable& variable : problem.variables) {
    if (variable.kind != VariableKind::node) continue;
    LeastComputing& node = least[variable.node];
    for (const Strategy& strategy : variable.set->strategies) {
      node.forward_seconds = std::min(node.forward_seconds, strategy.forward_seconds);
      node.whole_seconds = std::min(node.whole_seconds, strategy.forward_seconds + strategy.backward_seconds);
    }
  }
}

Result<std::vector<LeastComputing>> least_computing(const PlanningContext& context, const Cluster& stage, const Config& search, const std::string& mesh, std::size_t max_axes) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (mesh.empty()) {
    shapes = candidate_shapes(stage, max_axes);
  } else {
    Result<std::vector<std::int64_t>> shape = parse_mesh_shape(mesh);
    if (!shape) return shape.error();
    shapes.push_back(std::move(*shape));
  }
  std::vector<LeastComputing> least(context.graph().nodes.size(), kNoLeast);
  for (const std::vector<std::int64_t>& shape : shapes) {
    const Result<Mesh> laid = make_mesh(stage, shape);
    if (!laid) return laid.error();
    const Result<StrategyFilter> filter = wanted_filter(search, *laid);
    if (!filter) return filter.error();
    const Result<Problem> problem = build_problem(ProblemInput{context, *laid, *filter});
    if (problem) take_least(*problem, least);
    else if (problem.error().code != ErrorCode::infeasible) return problem.error();
  }
  std::ranges::replace(least, kNoLeast, LeastComputing{});  // of what depends on no parameter
  return least;
}

double least_step_seconds(const std::vector<LeastComputing>& computing, std::int64_t microbatches) {
  double seconds = 0;
  for (const LeastComputing& node : computing) seconds += node.whole_seconds;
  return static_cast<double>(microbatches) * seconds;
}

double least_step_seconds(const std::vector<LeastComputing>& computing, const PipelineSchedule& schedule) {
  const double microbatches = schedule.shape.microbatches, whole = least_step_seconds(computing, 1);
  const bool parts = has_parts(schedule);
  double least = microbatches * whole / schedule.shape.stages, most = microbatches * whole;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = least + (most - least) / 2;
    (can_be_cut(computing, schedule.shape.positions(), microbatches, parts, middle) ? most : least) = middle;
  }
  return least;
}

}  // namespace meshwright
