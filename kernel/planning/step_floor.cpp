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

// By position of a schedule.
using Computing = std::span<const std::vector<LeastComputing>* const>;

// By node what it counts at the positions behind its own, wherever that is.
std::vector<double> passing_seconds(Computing computing, bool parts) {
  std::vector<double> passing(computing.front()->size(), std::numeric_limits<double>::infinity());
  for (const std::vector<LeastComputing>* each : computing) {
    for (std::size_t id = 0; id < passing.size(); ++id) passing[id] = std::min(passing[id], parts ? (*each)[id].forward_seconds : (*each)[id].whole_seconds);
  }
  return passing;
}

// Whether the order can be cut into these positions so that their paths take at most so long. Each position takes as many ops as it can: what is left for the others can only become less.
bool can_be_cut(Computing computing, std::span<const double> passing, double microbatches, double longest) {
  double before = 0, own = 0, with_own = 0;  // before the position, of the position, and what counts at those behind it
  std::size_t position = 0, id = 0;
  while (id < passing.size()) {
    const double seconds = (*computing[position])[id].whole_seconds;
    if (before + microbatches * (own + seconds) > longest) {
      if (++position == computing.size()) return false;
      before += std::exchange(with_own, 0);
      own = 0;
      continue;
    }
    own += seconds;
    with_own += passing[id++];
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
  const std::vector<const std::vector<LeastComputing>*> each(schedule.shape.positions(), &computing);
  return std::max(static_cast<double>(schedule.shape.microbatches) * least_step_seconds(computing, 1) / schedule.shape.stages, least_step_seconds(each, schedule));
}

double least_step_seconds(Computing computing, const PipelineSchedule& schedule) {
  const double microbatches = schedule.shape.microbatches;
  const std::vector<double> passing = passing_seconds(computing, has_parts(schedule));
  double least = 0, most = 0;
  for (const std::vector<LeastComputing>* each : computing) most = std::max(most, microbatches * least_step_seconds(*each, 1));
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = least + (most - least) / 2;
    (can_be_cut(computing, passing, microbatches, middle) ? most : least) = middle;
  }
  return least;
}

}  // namespace meshwright
