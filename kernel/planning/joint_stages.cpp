#include "joint_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "assembled_stage.h"
#include "fitted_search.h"
#include "meshwright/mesh.h"
#include "microbatches.h"
#include "model_units.h"
#include "split_ways.h"
#include "stage_devices.h"
#include "stage_line.h"
#include "step_floor.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostAxes = 2;       // of meshes, and one more where the first axis shards the batch alone
constexpr double kCountedOn = 0.97;        // of a device's memory, by an estimate
constexpr double kLessMemory = 0.93;       // where that did not fit
constexpr int kMostPrices = 6;             // of bytes, until something fits
constexpr double kPriceStep = 4;           // from one to the next
constexpr double kPricesInTwo = 2;         // so many prices between one and its double are told apart
constexpr int kRoundsOfPrices = 3;         // of ways by what memory is worth in the cut that was found
constexpr double kWorthRounds = 1.1;       // over the best estimate
constexpr double kNearMesh = 1.3;          // over the fastest one: others get no ways that hold less
constexpr std::uint32_t kMostChunks = 8;
constexpr double kTicksApart = 1e-9;       // of floors, which are sums in another order than the simulation's
constexpr const char* kNoSmallWay = "no way to split it that was found holds so little";
constexpr double kNothing = std::numeric_limits<double>::infinity();

}  // namespace

class JointStages::Impl {
 public:
  explicit Impl(const JointStagesRequest& request) : request_(request), context_(request_.context) {}

  Status read() {
    Result<ModelUnits> units = model_units(context_);
    if (!units) return units.error();
    units_ = std::move(*units);
    if (const Result<std::vector<std::int64_t>> shape = parse_mesh_shape(request_.mesh); !request_.mesh.empty() && !shape) return shape.error();
    // Pins may be of any layer.
    Result<ShortModel> model = request_.pins.empty() ? short_model(context_, units_) : ShortModel{context_.graph(), units_};
    if (!model) return model.error();
    short_ = std::move(*model);
    alike_nodes_ = alike_nodes(units_, short_);
    alike_ = alike_names(context_.graph(), short_.graph, alike_nodes_);
    for (std::size_t id = 0; id < units_.seconds.size(); ++id) seconds_ += units_.bound[id] ? static_cast<double>(context_.training.microbatches) * units_.seconds[id] : 0;
    return Done{};
  }

  Result<std::vector<StageTrial>> search() {
    for (const Pair& pair : promising_pairs()) {
      if (best_seconds_ <= pair.seconds) {
        ++hopeless_;
        continue;
      }
      if (Status status = try_pair(pair); !status) return status.error();
    }
    say_what_is_left_out();
    return trials_;
  }

  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

  [[nodiscard]] bool is_small() const { return std::ssize(units_.bound) <= request_.most_searched_ops; }

  Status settle(StageTrial& trial) {
    Found& here = found(trial.choice);
    if (here.settled) return Done{};
    best_seconds_ = kNothing;  // it is worth any effort
    std::optional<LineCut> cut = here.line->line.cut(here.schedule, here.bytes, here.line->hop_seconds);
    if (Status status = add_smaller_ways(*here.line, here.schedule, here.bytes, cut); !status) return status;
    here.settled = true;
    if (!cut) {
      trial.state = TrialState::unfit;
      trial.reason = kNoSmallWay;
      return Done{};
    }
    here.cut = here.line->line.moved(std::move(*cut), here.schedule, here.bytes, here.line->hop_seconds);
    trial.estimate_seconds = here.cut.step_seconds;
    return Done{};
  }

  [[nodiscard]] StageCutWish wish(const StageChoice& choice) const { return wish_of(*found(choice).line, found(choice).cut); }

  std::optional<StageCutWish> wish_after(const StageChoice& choice, const std::vector<double>& busy_seconds) {
    Found& here = found(choice);
    StageLine line = here.corrected ? *here.corrected : here.line->line;
    std::size_t from = 0;
    for (std::size_t position = 0; position < here.cut.ends.size(); ++position) {
      const double expected = here.cut.stages[position].step_seconds(static_cast<double>(choice.microbatches));
      if (expected > 0) line.correct(from, here.cut.ends[position], busy_seconds[position] / expected);
      from = here.cut.ends[position];
    }
    here.corrected.emplace(std::move(line));
    return cut_again(here);
  }

  Result<std::optional<StageCutWish>> smaller_wish(const StageChoice& choice) {
    Found& here = found(choice);
    here.bytes *= kLessMemory;
    std::optional<LineCut> cut = here.line->line.cut(here.schedule, here.bytes, here.line->hop_seconds);
    best_seconds_ = kNothing;  // it is worth any effort
    if (Status status = add_smaller_ways(*here.line, here.schedule, here.bytes, cut); !status) return status.error();
    return cut_again(here);
  }

 private:
  // Numbers of stages and microbatches, and what all devices would take together at least if each were as fast as one alone: an estimate, by which what is hopeless is not looked at.
  struct Pair {
    std::int64_t stages = 1, microbatches = 1;
    double seconds = 0;
  };

  // The short model in microbatches of one size.
  struct Sized {
    ModelAnalysis model;
    TrainingSettings training;
    FittedSolver::Lower lower;
    std::optional<FittedSolver> solver;
  };

  // The whole line for microbatches of one size on so many devices.
  struct Line {
    Line(const ModelUnits& units, std::int64_t microbatches) : line(units, microbatches) {}

    StageLine line;
    std::vector<SplitWays> meshes;
    std::vector<bool> batch_first;       // by mesh
    std::vector<std::size_t> known;      // ways of each that are in the line
    std::vector<std::size_t> numbers;    // of those in the line, each in its mesh
    const Sized* sized = nullptr;
    std::vector<LeastComputing> least;   // by node of the whole model
    double hop_seconds = 0;
    std::set<std::tuple<std::size_t, int, double>> asked = {};  // for which meshes, prices and numbers of microbatches in flight ways were looked for
  };

  struct Found {
    Line* line = nullptr;
    PipelineSchedule schedule;
    LineCut cut;
    double bytes = 0;
    bool settled = false;  // bytes count in the cut
    std::optional<StageLine> corrected = std::nullopt;  // by plans
  };

  Found& found(const StageChoice& choice) { return std::ranges::find(found_, choice, &std::pair<StageChoice, Found>::first)->second; }
  [[nodiscard]] const Found& found(const StageChoice& choice) const { return std::ranges::find(found_, choice, &std::pair<StageChoice, Found>::first)->second; }

  [[nodiscard]] std::vector<Pair> promising_pairs() const {
    std::vector<Pair> pairs;
    for (const std::int64_t stages : request_.stages) {
      if (stages > std::ssize(units_.units)) continue;
      for (const std::int64_t microbatches : request_.microbatches) {
        // Schedules of two chunks wait half as long; those of backwards in two parts may not wait.
        const double waits = static_cast<double>(stages - 1) / static_cast<double>(microbatches) / 3;
        pairs.push_back({stages, microbatches, seconds_ / static_cast<double>(request_.cluster.devices()) * (1 + waits)});
      }
    }
    std::ranges::stable_sort(pairs, {}, &Pair::seconds);
    return pairs;
  }

  void refuse(const StageChoice& choice, std::string reason) {
    StageTrial& trial = trials_.emplace_back();
    trial.choice = choice;
    trial.state = TrialState::refused;
    trial.reason = std::move(reason);
  }

  Status try_pair(const Pair& pair) {
    const auto stages = static_cast<std::uint32_t>(pair.stages);
    const auto refused = [&](std::string reason) {
      refuse({stages, "", pair.microbatches}, std::move(reason));
      return Status(Done{});
    };
    const Result<StageDevices> devices = StageDevices::even(request_.cluster, stages);
    if (!devices) return refused(devices.error().message);
    const Result<Sized*> sized = sized_for(pair.microbatches);
    if (!sized) return sized.error().code == ErrorCode::bad_input ? refused(sized.error().message) : Status(sized.error());
    const Result<Line*> line = make_line(**sized, *devices, pair);
    if (!line) return line.error().code == ErrorCode::bad_input ? refused(line.error().message) : Status(line.error());
    if ((*line)->meshes.empty()) return refused("no mesh of " + std::to_string(devices->devices(0)) + " devices has a strategy for each op");
    return try_schedules(**line, pair);
  }

  Result<Sized*> sized_for(std::int64_t microbatches) {
    std::unique_ptr<Sized>& known = sized_[microbatches];
    if (known != nullptr) return known.get();
    const std::int64_t parts = microbatches / context_.training.microbatches;
    Result<Graph> graph = cut_into_microbatches(short_.graph, context_.ops, parts, request_.allow_coupling);
    if (!graph) return graph.error();
    Result<ModelAnalysis> model = analyze_model(std::move(*graph), context_.ops);
    if (!model) return model.error();
    if (!model->backward) return model->no_backward;
    auto made = std::make_unique<Sized>();
    made->model = std::move(*model);
    made->training = context_.training;
    made->training.microbatches = microbatches;
    made->training.order = measured_order(microbatches);
    made->lower = [this, here = made.get()](const Plan& plan) { return request_.lower(plan, context_of(*here)); };
    made->solver = fitted_solver(request_.solver, request_.search, made->lower, {});
    known = std::move(made);
    return known.get();
  }

  [[nodiscard]] PlanningContext context_of(const Sized& sized) const { return {sized.model, sized.training, context_.ops, context_.profile, context_.conversions}; }

  Result<Line*> make_line(const Sized& sized, const StageDevices& devices, const Pair& pair) {
    const Cluster& cluster = devices.cluster(0);
    auto made = std::make_unique<Line>(units_, pair.microbatches);
    const SplitRequest request{context_of(sized), short_.units, request_.search, request_.pins, *sized.solver, sized.lower, !request_.solver.reads_model()};
    std::vector<LeastComputing> least(sized.model.graph->nodes.size(), kNoLeast);
    for (const auto& [shape, batch_first] : shapes_of(cluster)) {
      Result<std::optional<SplitWays>> ways = SplitWays::make(request, cluster, shape, batch_first);
      if (!ways) return ways.error();
      if (!*ways) continue;
      (*ways)->take_least(least);
      made->meshes.push_back(std::move(**ways));
      made->batch_first.push_back(batch_first);
    }
    made->sized = &sized;
    made->least = of_whole(least);
    made->hop_seconds = hop_seconds(pair, devices);
    add_ways(*made);
    lines_.push_back(std::move(made));
    return lines_.back().get();
  }

  [[nodiscard]] std::vector<std::pair<std::vector<std::int64_t>, bool>> shapes_of(const Cluster& cluster) const {
    std::vector<std::pair<std::vector<std::int64_t>, bool>> shapes;
    if (!request_.mesh.empty()) {
      shapes.emplace_back(parse_mesh_shape(request_.mesh).value(), false);
      return shapes;
    }
    for (std::vector<std::int64_t>& shape : candidate_shapes(cluster, kMostAxes + 1)) {
      const bool batch_first = shape.size() > kMostAxes && !is_small();
      shapes.emplace_back(std::move(shape), batch_first);
    }
    return shapes;
  }

  // By node of the whole model what the one that is alike takes.
  [[nodiscard]] std::vector<LeastComputing> of_whole(const std::vector<LeastComputing>& least) const {
    std::vector<LeastComputing> made;
    for (const NodeId alike : alike_nodes_) made.push_back(alike == kNoId || least[alike] == kNoLeast ? LeastComputing{} : least[alike]);
    return made;
  }

  // What a stage sends of a microbatch to the next one, at a place in the middle of the line.
  [[nodiscard]] double hop_seconds(const Pair& pair, const StageDevices& devices) const {
    const StageLink link = devices.slowest_link();
    const double bytes = static_cast<double>(units_.units[units_.units.size() / 2].crossing_bytes) * static_cast<double>(context_.training.microbatches) / static_cast<double>(pair.microbatches);
    return pair.stages == 1 ? 0 : link.latency_seconds + link.seconds_per_byte * bytes;
  }

  // Those that are not in the line yet.
  static void add_ways(Line& line) {
    line.known.resize(line.meshes.size(), 0);
    for (std::size_t mesh = 0; mesh < line.meshes.size(); ++mesh) {
      const std::vector<SplitWay>& ways = line.meshes[mesh].ways();
      for (; line.known[mesh] < ways.size(); ++line.known[mesh]) {
        line.line.add_way(mesh, ways[line.known[mesh]].by_kind);
        line.numbers.push_back(line.known[mesh]);
      }
    }
  }

  Status try_schedules(Line& line, const Pair& pair) {
    const auto stages = static_cast<std::uint32_t>(pair.stages);
    if (stages == 1) return try_schedule(line, {1, "", pair.microbatches}, one_stage(pair.microbatches));
    std::vector<std::pair<std::string, PipelineSchedule>> seen;
    for (const std::string& id : request_.schedules) {
      std::uint32_t chunks = request_.chunks;
      while (chunks <= kMostChunks || chunks == request_.chunks) {
        const StageChoice choice{stages, id, pair.microbatches, chunks};
        Result<PipelineSchedule> schedule = request_.schedule(choice);
        if (!schedule && schedule.error().code != ErrorCode::bad_input) return schedule.error();
        if (!schedule) {
          if (chunks == request_.chunks) refuse(choice, schedule.error().message);
          break;
        }
        const std::uint32_t has = schedule->shape.chunks;
        const auto same = std::ranges::find(seen, *schedule, &std::pair<std::string, PipelineSchedule>::second);
        if (same != seen.end()) {
          refuse(choice, "the same order as " + same->first);
        } else {
          seen.emplace_back(id, *schedule);
          if (Status status = try_schedule(line, choice, std::move(*schedule)); !status) return status;
        }
        if (has == 1 || request_.chunks > 0 || std::size_t{2} * has * stages > units_.units.size()) break;
        chunks = 2 * has;
      }
    }
    return Done{};
  }

  Status try_schedule(Line& line, const StageChoice& choice, PipelineSchedule schedule) {
    StageTrial trial;
    trial.choice = choice;
    trial.floor_seconds = (choice.stages == 1 ? least_step_seconds(line.least, choice.microbatches) : least_step_seconds(line.least, schedule)) * (1 - kTicksApart);
    trial.state = TrialState::unfit;
    const double bytes = kCountedOn * static_cast<double>(request_.budget_bytes);
    std::optional<LineCut> cut = line.line.cut(schedule, kNothing, line.hop_seconds);
    if (!cut) {
      refuse(choice, "the model has " + std::to_string(line.line.size()) + " parts that could be stages");
      return Done{};
    }
    if (cut->step_seconds >= best_seconds_) {
      trial.state = TrialState::estimated;
      trial.estimate_seconds = cut->step_seconds;
      trials_.push_back(std::move(trial));
      found_.emplace_back(choice, Found{&line, std::move(schedule), std::move(*cut), bytes});
      return Done{};
    }
    cut = line.line.cut(schedule, bytes, line.hop_seconds);
    if (Status status = add_smaller_ways(line, schedule, bytes, cut); !status) return status;
    if (!cut) {
      trial.reason = kNoSmallWay;
      trials_.push_back(std::move(trial));
      return Done{};
    }
    if (cut->step_seconds < kWorthRounds * best_seconds_) cut = line.line.moved(std::move(*cut), schedule, bytes, line.hop_seconds);
    trial.state = TrialState::estimated;
    trial.estimate_seconds = cut->step_seconds;
    best_seconds_ = std::min(best_seconds_, cut->step_seconds);
    trials_.push_back(std::move(trial));
    found_.emplace_back(choice, Found{&line, std::move(schedule), std::move(*cut), bytes, true});
    return Done{};
  }

  // Where memory binds: until something fits, and then by what it is worth in the stages.
  Status add_smaller_ways(Line& line, const PipelineSchedule& schedule, double bytes, std::optional<LineCut>& cut) {
    const std::vector<double> in_flight = in_flight_by_position(schedule);
    const double most_in_flight = std::ranges::max(in_flight);
    const std::vector<std::size_t> near = near_meshes(line);
    double factor = 1;
    for (int i = 0; i < kMostPrices && !cut; ++i, factor *= kPriceStep) {
      const std::size_t mesh = near.front();
      if (Status status = add_way(line, mesh, factor * line.meshes[mesh].usual_price(), most_in_flight); !status) return status;
      cut = line.line.cut(schedule, bytes, line.hop_seconds);
    }
    for (int round = 0; round < kRoundsOfPrices && cut && cut->step_seconds < kWorthRounds * best_seconds_; ++round) {
      std::set<std::pair<double, double>> wanted;  // prices and numbers in flight
      for (std::size_t position = 0; position < cut->stages.size(); ++position) {
        const bool is_asked = position == 0 || position + 1 == cut->stages.size() || position == cut->stages.size() / 2;
        if (is_asked && cut->stages[position].price > 0) wanted.emplace(cut->stages[position].price, in_flight[position]);
      }
      bool any = false;
      for (const auto& [price, flying] : wanted) {
        for (const std::size_t mesh : near) {
          const std::size_t before = line.meshes[mesh].ways().size();
          if (Status status = add_way(line, mesh, price, flying); !status) return status;
          any = any || line.meshes[mesh].ways().size() > before;
        }
      }
      if (!any) break;
      const double before = cut->step_seconds;
      cut = line.line.cut(schedule, bytes, line.hop_seconds);
      if (cut->step_seconds > (1 - 1e-3) * before) break;
    }
    return Done{};
  }

  // Prices that are nearly alike are one.
  Status add_way(Line& line, std::size_t mesh, double price, double in_flight) {
    const auto step = static_cast<int>(std::lround(kPricesInTwo * std::log2(price)));
    if (!line.asked.emplace(mesh, step, in_flight).second) return Done{};
    Result<bool> added = line.meshes[mesh].add(std::exp2(step / kPricesInTwo), in_flight);
    if (!added) return added.error();
    add_ways(line);
    return Done{};
  }

  // Meshes whose fastest way is not much slower than that of the fastest one, which is the first.
  [[nodiscard]] std::vector<std::size_t> near_meshes(const Line& line) const {
    std::vector<double> seconds;
    for (const SplitWays& mesh : line.meshes) {
      double sum = 0;
      for (const ModelUnit& unit : units_.units) sum += mesh.ways().front().by_kind[unit.kind].forward_seconds + mesh.ways().front().by_kind[unit.kind].backward_seconds();
      seconds.push_back(sum);
    }
    std::vector<std::size_t> near;
    for (std::size_t mesh = 0; mesh < seconds.size(); ++mesh) {
      if (seconds[mesh] <= kNearMesh * std::ranges::min(seconds)) near.push_back(mesh);
    }
    std::ranges::stable_sort(near, {}, [&](std::size_t mesh) { return seconds[mesh]; });
    return near;
  }

  [[nodiscard]] StageCutWish wish_of(const Line& line, const LineCut& cut) const {
    StageCutWish wish;
    wish.stage_of.assign(units_.bound.size(), 0);
    std::size_t unit = 0;
    for (std::uint32_t position = 0; position < cut.ends.size(); ++position) {
      for (; unit < cut.ends[position]; ++unit) {
        for (NodeId id = units_.units[unit].begin; id < units_.units[unit].end; ++id) {
          if (units_.bound[id]) wish.stage_of[id] = position;
        }
      }
      wish.stages.push_back(stage_wish(line, cut.stages[position]));
    }
    return wish;
  }

  [[nodiscard]] StageCutWish::Stage stage_wish(const Line& line, const StageCost& cost) const {
    const std::size_t mesh = cost.mesh;
    StageCutWish::Stage wish{to_string(line.meshes[mesh].mesh()), line.batch_first[mesh]};
    if (can_assemble()) {
      wish.assemble = [this, &line, mesh, cost](const PlanningContext& stage, const FittedSolver& solver, std::int64_t budget) {
        const StageRecipe recipe{line.meshes[mesh], line.numbers[cost.faster], line.numbers[cost.smaller], cost.part, cost.part_bytes};
        return assemble_stage(stage, solver, request_.pins, line.sized->model, alike_, recipe, budget);
      };
    }
    wish.bytes = cost.bytes;
    wish.searched = is_small();
    if (is_small()) {
      wish.mesh = request_.mesh;
      wish.batch_first = false;
    }
    return wish;
  }

  // Where the short model says what the whole could do, and no setting asks for what it does not know.
  [[nodiscard]] bool can_assemble() const {
    const Config& search = request_.search;
    const bool is_whole = short_.units.units.size() == units_.units.size();
    return !is_whole && !request_.solver.reads_model() && search.text("checkpoint") == "none" && search.text("recompute") != "blocks" && search.text("inputs") != "rows";
  }

  std::optional<StageCutWish> cut_again(Found& here) const {
    const StageLine& line = here.corrected ? *here.corrected : here.line->line;
    std::optional<LineCut> cut = line.cut(here.schedule, here.bytes, here.line->hop_seconds);
    if (!cut) return std::nullopt;
    LineCut moved = line.moved(std::move(*cut), here.schedule, here.bytes, here.line->hop_seconds);
    const StageCutWish before = wish_of(*here.line, here.cut);
    here.cut = std::move(moved);
    StageCutWish wish = wish_of(*here.line, here.cut);
    return wish == before ? std::nullopt : std::optional(std::move(wish));
  }

  void say_what_is_left_out() {
    if (hopeless_ > 0) {
      left_out_.push_back(std::to_string(hopeless_) + " pairs of a number of stages and of microbatches for which devices, each as fast as one alone, would take longer than what is expected of the best");
    }
    if (request_.mesh.empty() && !is_small()) left_out_.emplace_back("meshes of three axes whose first one shards anything but the batch");
    left_out_.emplace_back("cuts inside of the " + std::to_string(units_.units.size()) + " parts of the model at whose ends least crosses");
  }

  const JointStagesRequest request_;
  const PlanningContext& context_;
  ModelUnits units_;
  ShortModel short_;
  std::vector<NodeId> alike_nodes_;  // by node
  AlikeNames alike_;
  double seconds_ = 0;  // of a step on one device
  double best_seconds_ = kNothing;
  std::size_t hopeless_ = 0;
  std::map<std::int64_t, std::unique_ptr<Sized>> sized_;  // by microbatches
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<StageTrial> trials_;
  std::vector<std::pair<StageChoice, Found>> found_;
  std::vector<std::string> left_out_;
};

JointStages::JointStages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JointStages::JointStages(JointStages&&) noexcept = default;
JointStages::~JointStages() = default;

Result<JointStages> JointStages::make(const JointStagesRequest& request) {
  auto impl = std::make_unique<Impl>(request);
  if (Status status = impl->read(); !status) return status.error();
  return JointStages(std::move(impl));
}

Result<std::vector<StageTrial>> JointStages::search() { return impl_->search(); }
bool JointStages::is_small() const { return impl_->is_small(); }
Status JointStages::settle(StageTrial& trial) { return impl_->settle(trial); }
const std::vector<std::string>& JointStages::left_out() const { return impl_->left_out(); }
StageCutWish JointStages::wish(const StageChoice& choice) const { return impl_->wish(choice); }
std::optional<StageCutWish> JointStages::wish_after(const StageChoice& choice, const std::vector<double>& busy_seconds) { return impl_->wish_after(choice, busy_seconds); }
Result<std::optional<StageCutWish>> JointStages::smaller_wish(const StageChoice& choice) { return impl_->smaller_wish(choice); }

}  // namespace meshwright
