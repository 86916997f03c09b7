#include "placed_steps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "assembled_stage.h"
#include "cluster_part.h"
#include "fitted_search.h"
#include "meshwright/mesh.h"
#include "split_ways.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostMeshAxes = 2;    // Alpa's logical meshes
constexpr double kDearer[] = {4, 64};        // prices of bytes of ways that hold less

// Numbers of devices that a stage may have, ascending.
std::vector<std::int64_t> stage_sizes(const Cluster& cluster) {
  const std::int64_t server = cluster.devices_per_node;
  std::vector<std::int64_t> sizes;
  for (std::int64_t devices = 1; devices < server; devices *= 2) sizes.push_back(devices);
  for (std::int64_t servers = 1; servers <= cluster.nodes; ++servers) {
    if (cluster.nodes % servers == 0) sizes.push_back(servers * server);
  }
  std::erase_if(sizes, [&](std::int64_t devices) { return !cluster_part(cluster, devices); });
  return sizes;
}

Config search_of_ways(Config search, StepObjective objective) {
  if (objective == StepObjective::alpa) return search;
  if (search.text("weights") == "free") search.set("weights", std::string("sharded"));
  if (search.text("zero") == "free") search.set("zero", std::string("0"));
  return search;
}

Config with_recompute(Config search, const char* what) {
  search.set("recompute", std::string(what));
  return search;
}

}  // namespace

struct StepWays::Impl {
  // A mesh, and how the short model runs on it.
  struct Way {
    std::int64_t devices = 1;
    std::string name;
    bool batch_first = false;
    SplitWays split;
  };

  Impl(const PlacedWaysRequest& given, const ModelUnits& whole, StepObjective which, ShortModel shorter, ModelAnalysis analyzed)
      : request(given),
        units(whole),
        objective(which),
        model(std::move(shorter)),
        analysis(std::move(analyzed)),
        training(given.context.training),
        search(search_of_ways(given.search, which)),
        once(with_recompute(search, "none")),
        again(with_recompute(search, "all")) {
    training.order = measured_order(training.microbatches);
    lower = [this](const Plan& plan) { return request.lower(plan, context()); };
    solver = fitted_solver(request.solver, search, lower, {});
    alike = alike_names(request.context.graph(), model.graph, alike_nodes(units, model));
  }

  [[nodiscard]] PlanningContext context() const { return {analysis, training, request.context.ops, request.context.profile, request.context.conversions}; }

  Status measure(const Config& as) {
    const SplitRequest split{context(), model.units, as, pins, *solver, lower, false};
    for (const std::int64_t devices : stage_sizes(request.cluster)) {
      const Result<Cluster> part = cluster_part(request.cluster, devices);
      if (!part) return part.error();
      const bool is_dapple = objective == StepObjective::dapple, batch_first = is_dapple && devices > 1;
      const std::vector<std::vector<std::int64_t>> shapes = is_dapple ? std::vector<std::vector<std::int64_t>>{{devices}} : candidate_shapes(*part, kMostMeshAxes);
      for (const std::vector<std::int64_t>& shape : shapes) {
        Result<std::optional<SplitWays>> ways = SplitWays::make(split, *part, shape, batch_first);
        if (!ways) return ways.error();
        if (*ways) all.push_back({devices, to_string((*ways)->mesh()), batch_first, std::move(**ways)});
      }
    }
    return Done{};
  }

  // As many ops of the stage as fit the fastest way on its mesh, and the others in one that holds less, where some may run again and all in one way does not fit.
  Result<std::optional<FittedPlan>> assemble(std::uint32_t number, const PlanningContext& stage, const FittedSolver& fitted, std::int64_t budget) {
    Result<std::optional<FittedPlan>> made = assemble_stage(stage, fitted, pins, analysis, alike, StageRecipe{all[number].split, 0, 0, 1, 0}, budget);
    if (!made || *made || search.text("recompute") != "free") return made;
    const Way& way = all[number];
    auto known = mixtures.find({way.name, way.batch_first});
    if (known == mixtures.end()) {
      const Result<Cluster> part = cluster_part(request.cluster, way.devices);
      if (!part) return part.error();
      const SplitRequest split{context(), model.units, search, pins, *solver, lower, true};
      Result<std::optional<SplitWays>> ways = SplitWays::make(split, *part, parse_mesh_shape(way.name).value(), way.batch_first);
      if (!ways) return ways.error();
      if (!*ways) return made;
      known = mixtures.emplace(std::pair(way.name, way.batch_first), std::move(**ways)).first;
      for (const double factor : kDearer) {
        const Result<bool> added = known->second.add(factor * known->second.usual_price(), training.microbatches > 1 ? 2 : 1);
        if (!added) return added.error();
      }
    }
    const SplitWays& mixture = known->second;
    if (mixture.ways().size() < 2) return made;
    return assemble_stage(stage, fitted, pins, analysis, alike, StageRecipe{mixture, 0, mixture.ways().size() - 1, 1, 0}, budget);
  }

  const PlacedWaysRequest request;
  const ModelUnits units;  // of the whole
  const StepObjective objective;
  const ShortModel model;
  const ModelAnalysis analysis;
  TrainingSettings training;
  const Config search, once, again;
  const std::vector<Pin> pins;  // none: what is pinned by the user is of the whole
  AlikeNames alike;
  FittedSolver::Lower lower;
  std::optional<FittedSolver> solver;
  bool runs_again = false;
  std::vector<Way> all;
  std::map<std::pair<std::string, bool>, SplitWays> mixtures;  // by mesh: the fastest way, and some that hold less
};

Result<StepWays> StepWays::make(const PlacedWaysRequest& request, const ModelUnits& units, StepObjective objective) {
  Result<ShortModel> model = short_model(request.context, units);
  if (!model) return model.error();
  Result<ModelAnalysis> analysis = analyze_model(model->graph, request.context.ops);
  if (!analysis) return analysis.error();
  if (!analysis->backward) return analysis->no_backward;
  auto impl = std::make_shared<Impl>(request, units, objective, std::move(*model), std::move(*analysis));
  StepWays ways(std::move(impl));
  if (request.search.text("recompute") == "all") {
    if (Status status = ways.add_running_again(); !status) return status.error();
  } else if (Status status = ways.impl_->measure(ways.impl_->once); !status) {
    return status.error();
  }
  if (ways.impl_->all.empty()) return bad_input("no mesh of a part of the cluster has a strategy for each op of the model, by which stages could be chosen");
  return ways;
}

bool StepWays::may_run_again() const { return !impl_->runs_again && impl_->request.search.text("recompute") != "none"; }

Status StepWays::add_running_again() {
  impl_->runs_again = true;
  return impl_->measure(impl_->again);
}

StepProblem StepWays::problem(const PlacedLine& line, std::uint32_t microbatches, double device_bytes) const {
  StepProblem problem;
  problem.objective = impl_->objective;
  problem.devices = line.devices;
  problem.microbatches = microbatches;
  problem.device_bytes = device_bytes;
  const Cluster& cluster = impl_->request.cluster;
  problem.groups.push_back(static_cast<std::uint32_t>(cluster.devices_per_node));
  for (const LinkLevel& level : cluster.levels) problem.groups.push_back(static_cast<std::uint32_t>(level.group));
  const std::vector<ModelUnit>& units = line.units.units;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool is_last = u + 1 == units.size();
    problem.nodes.push_back({"unit " + std::to_string(u), is_last ? 0 : line.latency_seconds + static_cast<double>(units[u].crossing_bytes) / line.bytes_per_second});
  }
  for (const Impl::Way& way : impl_->all) {
    StepWay& made = problem.ways.emplace_back(StepWay{way.name, static_cast<std::uint32_t>(way.devices), {}});
    for (const ModelUnit& unit : units) made.nodes.push_back(step_cost(way.split.ways().front().by_kind[unit.kind]));
  }
  return problem;
}

StageCutWish StepWays::wish(const PlacementAnswer& answer, std::int64_t most_searched_ops) const {
  const bool is_small = std::ssize(impl_->units.bound) <= most_searched_ops;
  StageCutWish wish = placed_wish(impl_->units, answer);
  for (std::size_t position = 0; position < answer.stages.size(); ++position) {
    const std::uint32_t number = answer.stages[position].way;
    const Impl::Way& way = impl_->all[number];
    StageCutWish::Stage& stage = wish.stages[position];
    stage.mesh = way.name;
    stage.batch_first = way.batch_first;
    if (is_small || !can_assemble(impl_->units, impl_->model, impl_->request.solver, impl_->search)) continue;
    stage.searched = false;
    stage.assemble = [impl = impl_, number](const PlanningContext& context, const FittedSolver& solver, std::int64_t budget) {
      return impl->assemble(number, context, solver, budget);
    };
  }
  return wish;
}

}  // namespace meshwright
