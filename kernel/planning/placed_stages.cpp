#include "placed_stages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cluster_part.h"
#include "fitted_search.h"
#include "split_ways.h"

namespace meshwright {

namespace {

constexpr const char* kVanilla = "vanilla";
constexpr const char* kRunAgain = "activation recomp";

// By unit the bytes of the parameters that it is the first to use.
std::vector<double> first_used_bytes(const Graph& graph, const ModelUnits& units) {
  const std::vector<std::uint32_t> unit_of = unit_of_nodes(graph, units);
  std::vector<std::uint32_t> first(graph.values.size(), kNoId);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (const Operand& operand : graph.nodes[id].operands) first[operand.value] = std::min(first[operand.value], unit_of[id]);
  }
  std::vector<double> bytes(units.units.size(), 0);
  for (const Source& source : graph.sources) {
    const TensorType& type = graph.type(source.value);
    if (source.kind != SourceKind::parameter || !graph.values[source.value].requires_gradient || first[source.value] == kNoId) continue;
    bytes[first[source.value]] += static_cast<double>(type.elements() * size_bytes(type.dtype));
  }
  return bytes;
}

// Each unit hands something on to the next one; `bytes` of it where a problem's edges say how much.
std::vector<PlacementEdge> edges_of(const PlacedLine& line, bool with_bytes) {
  std::vector<PlacementEdge> edges;
  for (std::uint32_t u = 0; u + 1 < line.units.units.size(); ++u) edges.push_back({u, u + 1, with_bytes ? static_cast<double>(line.units.units[u].crossing_bytes) : 0});
  return edges;
}

std::string unit_name(std::size_t unit) { return "unit " + std::to_string(unit); }

// [search] of a way: tensor parallelism as Megatron has it.
Config search_of_way(Config search, bool again) {
  if (search.text("weights") == "free") search.set("weights", std::string("sharded"));
  if (search.text("zero") == "free") search.set("zero", std::string("0"));
  search.set("recompute", std::string(again ? "all" : "none"));
  return search;
}

// Whether what is kept may run again, and whether it must.
struct Variants {
  bool vanilla = true, again = false;
};

Variants variants_of(const Config& search) {
  const std::string& recompute = search.text("recompute");
  return {recompute != "all", recompute != "none"};
}

class WayMeter {
 public:
  WayMeter(const PlacedWaysRequest& request, const ShortModel& model, const ModelAnalysis& analysis) : request_(request), model_(model), analysis_(analysis), training_(request.context.training) {
    training_.order = measured_order(training_.microbatches);
  }

  // With all of `devices` computing together; nothing where no strategy is allowed.
  [[nodiscard]] Result<std::optional<PlacedWay>> measure(const Cluster& devices, bool again) const {
    const Config search = search_of_way(request_.search, again);
    const std::vector<Pin> pins;
    const PlanningContext context{analysis_, training_, request_.context.ops, request_.context.profile, request_.context.conversions};
    const FittedSolver::Lower lower = [&](const Plan& plan) { return request_.lower(plan, context); };
    const FittedSolver solver = fitted_solver(request_.solver, search, lower, {});
    const SplitRequest split{context, model_.units, search, pins, solver, lower, false};
    const Result<std::optional<SplitWays>> ways = SplitWays::make(split, devices, {devices.devices()}, false);
    if (!ways) return ways.error();
    if (!*ways) return std::optional<PlacedWay>();
    return std::optional(PlacedWay{static_cast<std::uint32_t>(devices.devices()), again ? kRunAgain : kVanilla, (*ways)->ways().front().by_kind});
  }

 private:
  const PlacedWaysRequest& request_;
  const ShortModel& model_;
  const ModelAnalysis& analysis_;
  TrainingSettings training_;
};

// What a device keeps of a unit's parameters, by what its memory holds of them.
double kept_bytes(double parameter_bytes, const UnitCost& here, const UnitCost& alone) {
  return alone.resident_bytes > 0 ? parameter_bytes * here.resident_bytes / alone.resident_bytes : parameter_bytes;
}

double computing_seconds(const UnitCost& cost) { return cost.forward_seconds + cost.backward_seconds(); }

}  // namespace

PlacedLine placed_line(const Graph& graph, ModelUnits units, const Cluster& cluster) {
  PlacedLine line;
  line.parameter_bytes = first_used_bytes(graph, units);
  for (const ModelUnit& unit : units.units) {
    double& seconds = line.seconds.emplace_back(0);
    for (NodeId id = unit.begin; id < unit.end; ++id) seconds += units.bound[id] ? units.seconds[id] : 0;
  }
  line.units = std::move(units);
  line.devices = static_cast<std::uint32_t>(cluster.devices());
  line.bytes_per_second = cluster.device.memory_bytes_per_second;  // of one device alone: nothing is sent
  const LinkLevel* slowest = nullptr;
  const auto rate = [](const LinkLevel& level) { return level.bytes_per_second / static_cast<double>(level.sharers); };
  for (const LinkLevel& level : cluster.levels) {
    if (slowest == nullptr || rate(level) < rate(*slowest)) slowest = &level;
  }
  if (slowest == nullptr) return line;
  line.bytes_per_second = rate(*slowest);
  line.latency_seconds = slowest->latency_seconds;
  return line;
}

Result<std::vector<PlacedWay>> measured_ways(const PlacedWaysRequest& request, const ModelUnits& units, std::int64_t most_devices) {
  const Result<ShortModel> model = short_model(request.context, units);
  if (!model) return model.error();
  const Result<ModelAnalysis> analysis = analyze_model(model->graph, request.context.ops);
  if (!analysis) return analysis.error();
  if (!analysis->backward) return analysis->no_backward;
  const WayMeter meter(request, *model, *analysis);
  const Variants variants = variants_of(request.search);
  std::vector<PlacedWay> ways;
  for (std::int64_t tensor = 1; tensor <= std::min(most_devices, request.cluster.devices_per_node); tensor *= 2) {
    const Result<Cluster> devices = cluster_part(request.cluster, tensor);
    if (!devices) continue;
    for (const bool again : {false, true}) {
      if (!(again ? variants.again : variants.vanilla)) continue;
      Result<std::optional<PlacedWay>> way = meter.measure(*devices, again);
      if (!way) return way.error();
      if (*way) ways.push_back(std::move(**way));
    }
  }
  if (ways.empty() || ways.front().tensor != 1) return bad_input("the model has no program on one device, by which a placement could be made");
  return ways;
}

StepCost step_cost(const UnitCost& cost) {
  const double backward = std::max(cost.backward_seconds(), cost.backward_beside_seconds);
  return {std::max(cost.forward_seconds, cost.forward_beside_seconds), backward, cost.update_seconds + std::max(cost.last_beside_seconds - backward, cost.wait_seconds), cost.resident_bytes, cost.saved_bytes,
          cost.passing_bytes};
}

ReplicaProblem replica_problem(const PlacedLine& line) {
  ReplicaProblem problem{{}, edges_of(line, false), line.devices, line.bytes_per_second};
  for (std::size_t u = 0; u < line.seconds.size(); ++u) problem.nodes.push_back({unit_name(u), line.seconds[u], static_cast<double>(line.units.units[u].crossing_bytes), line.parameter_bytes[u]});
  return problem;
}

LoadProblem load_problem(const PlacedLine& line, const PlacedWay& alone, double device_bytes) {
  LoadProblem problem;
  problem.edges = edges_of(line, false);
  problem.accelerators = line.devices;
  problem.accelerator_bytes = device_bytes;
  for (std::uint32_t u = 0; u < line.seconds.size(); ++u) {
    const ModelUnit& unit = line.units.units[u];
    const UnitCost& cost = alone.by_kind[unit.kind];
    LoadNode& node = problem.nodes.emplace_back();
    node.name = unit_name(u);
    node.accelerator_seconds = line.seconds[u];
    node.memory_bytes = cost.resident_bytes + cost.saved_bytes;
    node.transfer_seconds = 2 * (line.latency_seconds + static_cast<double>(unit.crossing_bytes) / line.bytes_per_second);
    node.group = u;
  }
  return problem;
}

LayerProblem layer_problem(const PlacedLine& line, const std::vector<PlacedWay>& ways, std::uint32_t samples, double device_bytes) {
  LayerProblem problem{{}, edges_of(line, true), line.devices, samples, device_bytes, line.bytes_per_second};
  const std::size_t count = line.units.units.size();
  for (std::size_t u = 0; u < count; ++u) {
    LayerNode& node = problem.nodes.emplace_back();
    node.name = unit_name(u);
    const std::uint32_t kind = line.units.units[u].kind;
    for (const PlacedWay& way : ways) {
      if (node.degrees.empty() || node.degrees.back().tensor != way.tensor) node.degrees.push_back({way.tensor, {}});
      const UnitCost& cost = way.by_kind[kind];
      node.degrees.back().variants.push_back({way.name, computing_seconds(cost), kept_bytes(line.parameter_bytes[u], cost, ways.front().by_kind[kind]), cost.saved_bytes, cost.resident_bytes,
                                              std::vector<double>(u > 0 ? 1 : 0, 0), std::vector<double>(u + 1 < count ? 1 : 0, 0)});
    }
  }
  return problem;
}

std::optional<std::int64_t> placed_microbatches(const PlacementAnswer& answer, std::int64_t samples, std::int64_t batch) {
  std::int64_t together = 1;
  for (const PlacementStage& stage : answer.stages) together = std::lcm(together, std::int64_t{stage.replicas});
  if (samples % together == 0) return samples / together;
  for (std::int64_t microbatches = samples; microbatches > 0; --microbatches) {
    if (samples % microbatches == 0 && batch % (microbatches * together) == 0) return microbatches;
  }
  return std::nullopt;
}

StageCutWish placed_wish(const ModelUnits& units, const PlacementAnswer& answer) {
  StageCutWish wish;
  wish.stage_of.assign(units.bound.size(), 0);
  for (std::uint32_t position = 0; position < answer.stages.size(); ++position) {
    const PlacementStage& stage = answer.stages[position];
    for (const std::uint32_t unit : stage.nodes) {
      for (NodeId id = units.units[unit].begin; id < units.units[unit].end; ++id) {
        if (units.bound[id]) wish.stage_of[id] = position;
      }
    }
    const std::string replicas = std::to_string(stage.replicas), tensor = std::to_string(stage.tensor);
    wish.stages.push_back({stage.tensor == 1 ? replicas : stage.replicas == 1 ? tensor : replicas + "x" + tensor, stage.replicas > 1});
    wish.devices.push_back(std::int64_t{stage.replicas} * stage.tensor);
  }
  return wish;
}

}  // namespace meshwright
