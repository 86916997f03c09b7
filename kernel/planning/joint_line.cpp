#include "joint_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "assembled_stage.h"
#include "meshwright/mesh.h"
#include "microbatches.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostAxes = 2;   // of meshes, and one more where the first axis shards the batch alone
constexpr double kNearMesh = 1.3;      // over the fastest one: others get no ways that hold less
constexpr double kNearPriced = 1.01;   // over what takes least at a price: others are asked for no way at it
constexpr double kNoWaySeconds = std::numeric_limits<double>::infinity();

}  // namespace

Result<JointModel> JointModel::make(const JointStagesRequest& request) {
  if (const Result<std::vector<std::int64_t>> shape = parse_mesh_shape(request.mesh); !request.mesh.empty() && !shape) return shape.error();
  Result<ModelUnits> units = model_units(request.context);
  if (!units) return units.error();
  // Pins may be of any layer.
  Result<ShortModel> shorter = request.pins.empty() ? short_model(request.context, *units) : ShortModel{request.context.graph(), *units};
  if (!shorter) return shorter.error();
  JointModel model{std::move(*units), std::move(*shorter), {}, {}};
  model.alike_nodes = meshwright::alike_nodes(model.units, model.shorter);
  model.alike = alike_names(request.context.graph(), model.shorter.graph, model.alike_nodes);
  return model;
}

JointLine::JointLine(const JointStagesRequest& request, const JointModel& model, std::int64_t microbatches)
    : request_(request), model_(model), training_(request.context.training), line_(model.units, microbatches) {
  training_.microbatches = microbatches;
  training_.order = measured_order(microbatches);
}

Result<std::unique_ptr<JointLine>> JointLine::make(const JointStagesRequest& request, const JointModel& model, std::int64_t microbatches) {
  const PlanningContext& whole = request.context;
  Result<Graph> graph = cut_into_microbatches(model.shorter.graph, whole.ops, microbatches / whole.training.microbatches, request.allow_coupling);
  if (!graph) return graph.error();
  Result<ModelAnalysis> analysis = analyze_model(std::move(*graph), whole.ops);
  if (!analysis) return analysis.error();
  if (!analysis->backward) return analysis->no_backward;
  std::unique_ptr<JointLine> line(new JointLine(request, model, microbatches));
  line->analysis_ = std::move(*analysis);
  line->lower_ = [here = line.get()](const Plan& plan) { return here->request_.lower(plan, here->context()); };
  line->solver_ = fitted_solver(request.solver, request.search, line->lower_, {});
  return line;
}

PlanningContext JointLine::context() const { return {analysis_, training_, request_.context.ops, request_.context.profile, request_.context.conversions}; }

Status JointLine::add_devices(const Cluster& devices, const JointLines& others) {
  if (known_.contains(devices.devices())) return Done{};
  Known known{devices, meshes_of(devices, others), {}, {}, 0};
  double fastest = kNoWaySeconds;
  for (TriedMesh& mesh : known.tried) {
    if (mesh.seconds > kNearMesh * fastest) continue;
    if (Status status = look_at(mesh, known); !status) return status;
    fastest = std::min(fastest, mesh.seconds);
  }
  sum_up(known);
  known_.emplace(devices.devices(), std::move(known));
  return Done{};
}

Result<bool> JointLine::add_far_meshes(std::int64_t devices) {
  Known& known = known_.at(devices);
  bool any = false;
  for (TriedMesh& mesh : known.tried) {
    if (mesh.is_looked_at) continue;
    any = true;
    if (Status status = look_at(mesh, known); !status) return status.error();
  }
  if (any) sum_up(known);
  return any;
}

bool JointLine::has_far_meshes() const {
  const auto is_far = [](const TriedMesh& mesh) { return !mesh.is_looked_at; };
  return std::ranges::any_of(known_, [&](const auto& known) { return std::ranges::any_of(known.second.tried, is_far); });
}

// What is likely the fastest first. Nothing follows from larger parts where memory is the faster the less is asked of it, nor from a batch in one piece, whose backward reduces gradients too.
std::vector<JointLine::TriedMesh> JointLine::meshes_of(const Cluster& devices, const JointLines& others) const {
  const std::vector<TriedMesh>* known = nullptr;
  double part = 1;  // of what they take in the fewest microbatches that tell most
  for (const auto& [microbatches, line] : others) {
    const bool tells = microbatches > 1 && microbatches < training_.microbatches && training_.microbatches % microbatches == 0 && line != nullptr && devices.device.memory_curve.sizes.empty();
    if (!tells || !line->known_.contains(devices.devices())) continue;
    known = &line->known_.at(devices.devices()).tried;
    part = static_cast<double>(microbatches) / static_cast<double>(training_.microbatches);
  }
  std::vector<TriedMesh> meshes;
  for (auto& [shape, batch_first] : shapes_of(devices)) {
    meshes.push_back({std::move(shape), batch_first, 0, {}, false});
    if (known == nullptr) continue;
    TriedMesh& mesh = meshes.back();
    const TriedMesh& larger = *std::ranges::find_if(*known, [&](const TriedMesh& other) { return other.shape == mesh.shape && other.batch_first == mesh.batch_first; });
    mesh.seconds = part * larger.seconds;
    mesh.least = larger.least;
    for (LeastComputing& node : mesh.least) node = {part * node.forward_seconds, part * node.whole_seconds};
  }
  std::ranges::stable_sort(meshes, {}, &TriedMesh::seconds);
  return meshes;
}

Status JointLine::look_at(TriedMesh& mesh, Known& known) {
  const SplitRequest request{context(), model_.shorter.units, request_.search, request_.pins, *solver_, lower_, !request_.solver.reads_model()};
  mesh.is_looked_at = true;
  mesh.least.assign(analysis_.graph->nodes.size(), kNoLeast);
  mesh.seconds = kNoWaySeconds;
  Result<std::optional<SplitWays>> ways = SplitWays::make(request, known.devices, mesh.shape, mesh.batch_first);
  if (!ways) return ways.error();
  if (!*ways) return Done{};
  (*ways)->take_least(mesh.least);
  known.meshes.push_back(meshes_.size());
  meshes_.push_back({std::move(**ways), known.devices.devices(), mesh.batch_first});
  add_ways(meshes_.size() - 1);
  mesh.seconds = computing_seconds(meshes_.back());
  return Done{};
}

void JointLine::sum_up(Known& known) const {
  std::vector<LeastComputing> least(analysis_.graph->nodes.size(), kNoLeast);
  for (const TriedMesh& mesh : known.tried) {
    for (std::size_t node = 0; node < mesh.least.size(); ++node) {
      least[node].forward_seconds = std::min(least[node].forward_seconds, mesh.least[node].forward_seconds);
      least[node].whole_seconds = std::min(least[node].whole_seconds, mesh.least[node].whole_seconds);
    }
  }
  known.least = of_whole(least);
  rank_meshes(known);
}

bool JointLine::has(std::int64_t devices) const {
  const auto known = known_.find(devices);
  return known != known_.end() && !known->second.meshes.empty();
}

double JointLine::fastest_seconds(std::int64_t devices) const { return known_.at(devices).fastest_seconds; }

double JointLine::most_device_seconds(std::int64_t most_devices) const {
  double seconds = 0;
  for (const auto& [devices, known] : known_) {
    if (devices <= most_devices) seconds = std::max(seconds, static_cast<double>(devices) * known.fastest_seconds);
  }
  return seconds;
}

std::vector<std::pair<std::vector<std::int64_t>, bool>> JointLine::shapes_of(const Cluster& devices) const {
  std::vector<std::pair<std::vector<std::int64_t>, bool>> shapes;
  if (!request_.mesh.empty()) {
    shapes.emplace_back(parse_mesh_shape(request_.mesh).value(), false);
    return shapes;
  }
  for (std::vector<std::int64_t>& shape : candidate_shapes(devices, kMostAxes + 1)) {
    const bool batch_first = shape.size() > kMostAxes && !model_.is_small(request_);
    shapes.emplace_back(std::move(shape), batch_first);
  }
  return shapes;
}

// What the node that is alike takes.
std::vector<LeastComputing> JointLine::of_whole(const std::vector<LeastComputing>& least) const {
  std::vector<LeastComputing> made;
  for (const NodeId alike : model_.alike_nodes) made.push_back(alike == kNoId || least[alike] == kNoLeast ? LeastComputing{} : least[alike]);
  return made;
}

double JointLine::computing_seconds(const SplitMesh& mesh) const {
  const std::vector<UnitCost>& by_kind = mesh.ways.ways().front().by_kind;
  double seconds = 0;
  for (const ModelUnit& unit : model_.units.units) seconds += by_kind[unit.kind].forward_seconds + by_kind[unit.kind].backward_seconds();
  return seconds;
}

void JointLine::rank_meshes(Known& known) const {
  if (known.meshes.empty()) return;
  const auto seconds = [&](std::size_t mesh) { return computing_seconds(meshes_[mesh]); };
  std::ranges::stable_sort(known.meshes, {}, seconds);
  known.fastest_seconds = seconds(known.meshes.front());
  std::erase_if(known.meshes, [&](std::size_t mesh) { return seconds(mesh) > kNearMesh * known.fastest_seconds; });
}

// Those that are not in the line yet.
void JointLine::add_ways(std::size_t mesh) {
  SplitMesh& here = meshes_[mesh];
  const std::vector<SplitWay>& ways = here.ways.ways();
  for (; here.in_line < ways.size(); ++here.in_line) {
    line_.add_way(mesh, here.devices, ways[here.in_line].by_kind);
    numbers_.push_back(here.in_line);
  }
}

Result<bool> JointLine::add_priced(std::int64_t devices, double price, double in_flight) {
  bool any = false;
  for (const std::size_t mesh : meshes_worth_asking(known_.at(devices), price, in_flight)) {
    const Result<bool> added = add_way(mesh, price, in_flight);
    if (!added) return added.error();
    any = any || *added;
  }
  return any;
}

// Of a mesh that was asked for none yet nothing is known.
std::vector<std::size_t> JointLine::meshes_worth_asking(const Known& known, double price, double in_flight) const {
  std::vector<double> seconds;
  for (const std::size_t mesh : known.meshes) seconds.push_back(line_.priced_seconds(mesh, price, in_flight));
  const double least = *std::ranges::min_element(seconds);
  std::vector<std::size_t> worth;
  for (std::size_t i = 0; i < known.meshes.size(); ++i) {
    if (!meshes_[known.meshes[i]].is_asked || seconds[i] <= kNearPriced * least) worth.push_back(known.meshes[i]);
  }
  return worth;
}

Status JointLine::add_priced_to_fastest(std::int64_t devices, double factor, double in_flight) {
  const std::size_t mesh = known_.at(devices).meshes.front();
  const Result<bool> added = add_way(mesh, factor * meshes_[mesh].ways.usual_price(), in_flight);
  return added ? Status(Done{}) : Status(added.error());
}

Result<bool> JointLine::add_way(std::size_t mesh, double price, double in_flight) {
  const auto doublings = static_cast<int>(std::lround(std::log2(price)));  // prices nearer to each other are one
  if (!asked_.emplace(mesh, doublings, in_flight).second) return false;
  meshes_[mesh].is_asked = true;
  Result<bool> added = meshes_[mesh].ways.add(std::exp2(doublings), in_flight);
  if (added && *added) add_ways(mesh);
  return added;
}

StageCutWish::Stage JointLine::wish(const StageCost& cost) const {
  const SplitMesh& mesh = meshes_[cost.mesh];
  StageCutWish::Stage wish{to_string(mesh.ways.mesh()), mesh.batch_first};
  if (can_assemble(model_.units, model_.shorter, request_.solver, request_.search)) {
    wish.assemble = [this, cost](const PlanningContext& stage, const FittedSolver& solver, std::int64_t budget) {
      const SplitMesh& mesh = meshes_[cost.mesh];
      const StageRecipe recipe{mesh.ways, numbers_[cost.faster], numbers_[cost.smaller], cost.part, cost.part_bytes, mesh.assembled.get()};
      return assemble_stage(stage, solver, request_.pins, analysis_, model_.alike, recipe, budget);
    };
  }
  wish.bytes = cost.bytes;
  wish.searched = model_.is_small(request_);
  if (wish.searched) {
    wish.mesh = request_.mesh;
    wish.batch_first = false;
  }
  return wish;
}

}  // namespace meshwright
