#include "pipeline_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "cut_model.h"
#include "meshwright/memory_account.h"
#include "meshwright/memory_profile.h"
#include "meshwright/pipeline_step.h"
#include "meshwright/stages.h"
#include "refusal.h"
#include "stage_balance.h"
#include "stage_devices.h"
#include "stage_moves.h"
#include "stopwatch.h"
#include "units.h"
#include "wished_stage.h"

namespace meshwright {

namespace {

constexpr int kRounds = 3;         // of cuts, each balanced by what the stages of the one before took
constexpr int kMostShifts = 6;     // of work away from a stage that does not fit
constexpr double kShift = 1.25;    // by so much heavier it counts then
constexpr int kMostDivisions = 2;   // of a device's memory among the stages that share it
constexpr int kMostMoves = 3;       // of a block, or a module, out of the stage that takes longest, each of which made the step shorter
constexpr double kBalanced = 1.02;  // the longest stage over the shortest; no other cut is tried then

// Which chunks have backwards in two parts.
std::vector<bool> chunks_in_parts(const PipelineSchedule& schedule, std::size_t group) {
  std::vector<bool> in_parts(schedule.shape.chunks, false);
  for (const PipelineEvent& event : schedule.order[group]) {
    if (event.kind == PipelineEventKind::input_gradient) in_parts[event.chunk] = true;
  }
  return in_parts;
}

// What a schedule calls its events, a step does too, in the same order.
static_assert(static_cast<int>(PipelineEventKind::forward) == static_cast<int>(Phase::forward) && static_cast<int>(PipelineEventKind::backward) == static_cast<int>(Phase::backward) &&
              static_cast<int>(PipelineEventKind::input_gradient) == static_cast<int>(Phase::input_gradient) &&
              static_cast<int>(PipelineEventKind::weight_gradient) == static_cast<int>(Phase::weight_gradient));

// A stage is a position of the schedule. One that has some of its backwards in two parts has all of them so: its program is one.
GroupOrders orders_of(const PipelineSchedule& schedule) {
  GroupOrders orders;
  for (std::size_t group = 0; group < schedule.order.size(); ++group) {
    std::vector<StageEvent>& order = orders.emplace_back();
    const std::vector<bool> in_parts = chunks_in_parts(schedule, group);
    for (const PipelineEvent& event : schedule.order[group]) {
      const std::uint32_t stage = schedule.position(group, event.chunk);
      const auto add = [&](PipelineEventKind kind) { order.push_back({stage, {static_cast<Phase>(kind), event.microbatch}}); };
      if (event.kind == PipelineEventKind::backward && in_parts[event.chunk]) {
        add(PipelineEventKind::input_gradient);
        add(PipelineEventKind::weight_gradient);
      } else {
        add(event.kind);
      }
    }
  }
  return orders;
}

// What a stage runs: "F0 F1 B0", as step_order.h reads it.
std::string order_text(const std::vector<StageEvent>& order, std::uint32_t stage) {
  std::string text;
  for (const StageEvent& event : order) {
    if (event.stage == stage) text += (text.empty() ? "" : " ") + to_string(event.event);
  }
  return text;
}

std::set<std::string> names_in(const Graph& graph) {
  std::set<std::string> names;
  for (const Source& source : graph.sources) names.insert(source.names.begin(), source.names.end());
  for (const Value& value : graph.values) names.insert(value.name);
  for (const Node& node : graph.nodes) names.insert(node.name);
  return names;
}

// By stage: those of something that it has. A name that no stage has the planner of the first one refuses.
Result<std::vector<std::vector<Pin>>> pins_by_stage(std::span<const Pin> pins, const CutModel& cut) {
  std::vector<std::set<std::string>> names;
  for (const Graph& graph : cut.graphs) names.push_back(names_in(graph));
  std::vector<std::vector<Pin>> made(names.size());
  for (const Pin& pin : pins) {
    if (is_of_stage(pin)) continue;
    bool any = false;
    for (std::size_t stage = 0; stage < names.size(); ++stage) {
      if (!names[stage].contains(pin.name)) continue;
      made[stage].push_back(pin);
      any = true;
    }
    if (any) continue;
    if (is_of_recomputation(pin)) return bad_input(pin.where + ": pins of what runs again name ops where there are several stages, and no stage has an op '" + pin.name + "'");
    made.front().push_back(pin);
  }
  return made;
}

struct FoundStage {
  std::optional<Plan> plan;
  Program program;
  std::string refusal;
};

// A stage that was planned, with all that its plan depends on.
struct PlannedStage {
  Graph graph;
  StagePart part;
  std::int64_t budget = 0;
  StageCutWish::Stage wish;
  FoundStage found;
};

// One cut, planned.
struct Trial {
  std::optional<PipelinePlan> plan;
  std::vector<PlannedStage> stages;  // of that plan
  std::uint32_t failed = 0;  // else: the first stage that has no plan that fits
  std::string refusal;
};

class PipelinePlanner {
 public:
  explicit PipelinePlanner(const PipelineRequest& request)
      : request_(request), stages_(request.schedule.shape.positions()), orders_(orders_of(request.schedule)), groups_(groups_of_stages(orders_, stages_).value()), graph_(request.context.graph()) {
    const std::vector<bool> depends = depends_on_parameters(graph_);
    for (const Node& node : graph_.nodes) bound_.push_back(depends[node.results.front()]);
  }

  Result<PipelineOutcome> run() {
    if (Status status = take_devices(request_.devices); !status) return status.error();
    const StageCuts& cuts = request_.cuts;
    if (cuts.is_given()) {
      if (Status status = try_wishes(); !status) return status.error();
    }
    if (!cuts.is_given() || cuts.balanced_too) {
      if (Status status = try_cuts(); !status) return status.error();
    }
    if (outcome_.plan) {
      if (Status status = cuts.is_given() && !cuts.balanced_too ? Status(Done{}) : try_moves(); !status) return status.error();
      if (Status status = compare(); !status) return status.error();
    }
    return std::move(outcome_);
  }

 private:
  // Whatever is planned from here on is planned for these.
  Status take_devices(const std::vector<std::int64_t>& devices) {
    Result<StageDevices> made = devices.empty() ? StageDevices::even(request_.cluster, request_.schedule.shape.stages) : StageDevices::make(request_.cluster, devices);
    if (!made) return made.error();
    devices_.emplace(std::move(*made));
    return Done{};
  }

  [[nodiscard]] const Cluster& cluster_of(std::uint32_t stage) const { return devices_->cluster(groups_[stage]); }

  // By stage: how many times as fast as one device of the first stage. Unlike devices are told apart by what the whole model takes on one of each.
  Result<std::vector<double>> speeds() const {
    std::map<std::string, double> seconds;  // of the model, by the device's name
    std::vector<double> speeds;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      const DeviceSpec& device = cluster_of(stage).device;
      auto known = seconds.find(device.name);
      if (known == seconds.end()) {
        const PlanningContext& whole = request_.context;
        const CostProfile profile = profile_on(whole.profile, device, whole.training);
        const Result<std::vector<double>> each = seconds_on_one_device({whole.model, whole.training, whole.ops, profile, whole.conversions});
        if (!each) return each.error();
        known = seconds.emplace(device.name, std::reduce(each->begin(), each->end())).first;
      }
      speeds.push_back(static_cast<double>(cluster_of(stage).devices()) * seconds.at(cluster_of(0).device.name) / known->second);
    }
    return speeds;
  }

  // The first cut is balanced by the clock of one device, and the next ones by what the stages of those before took. Work is taken from a stage that does
  // not fit.
  Status try_cuts() {
    Result<std::vector<double>> seconds = seconds_on_one_device(request_.context);
    if (!seconds) return seconds.error();
    seconds_ = *seconds;
    Result<std::vector<double>> fast = speeds();
    if (!fast) return fast.error();
    BalanceWish wish{stages_, std::move(*fast), devices_->slowest_link().seconds_per_byte, request_.pins, seconds_, std::vector<double>(graph_.nodes.size(), 1)};
    std::set<std::vector<std::uint32_t>> tried;
    int rounds = 0, shifts = 0;
    while (rounds < kRounds && shifts < kMostShifts) {
      const Result<Balance> balance = balanced_stages(request_.context, wish);
      if (!balance) return balance.error();
      if (!tried.insert(balance->stage_of).second) return Done{};
      Result<Trial> trial = try_cut(balance->stage_of);
      if (!trial && outcome_.plan) return Done{};  // what another cut says is nobody's concern
      if (!trial) return trial.error();
      if (!trial->plan) {
        if (outcome_.refusal.empty()) outcome_.refusal = std::move(trial->refusal);
        ++shifts;
        weigh(*balance, wish.weights, [&](std::uint32_t stage) { return stage == trial->failed ? kShift : 1; });
        continue;
      }
      ++rounds;
      const std::vector<double> busy = trial->plan->busy_seconds;
      keep_if_better(balance->stage_of, std::move(*trial));
      const auto [least, most] = std::ranges::minmax(busy);
      if (most <= kBalanced * least) return Done{};
      const double scale = std::reduce(balance->seconds.begin(), balance->seconds.end()) / std::reduce(busy.begin(), busy.end());
      weigh(*balance, wish.weights, [&](std::uint32_t stage) { return balance->seconds[stage] > 0 ? scale * busy[stage] / balance->seconds[stage] : 1; });
    }
    return Done{};
  }

  // What is asked for.
  Status try_wishes() {
    std::optional<PipelinePlan> last;
    for (;;) {
      const Result<std::optional<StageCutWish>> next = request_.cuts.next(last ? &*last : nullptr);
      if (!next) return next.error();
      if (!*next) break;
      const std::optional<StageCutWish>& wish = *next;
      wishes_ = wish->stages;
      if (Status status = take_devices(wish->devices.empty() ? request_.devices : wish->devices); !status) return status.error();
      Result<Trial> trial = try_cut(wish->stage_of);
      if (!trial && outcome_.plan) break;
      if (!trial) return trial.error();
      if (!trial->plan && outcome_.refusal.empty()) outcome_.refusal = trial->refusal;
      last = trial->plan;
      if (trial->plan) keep_if_better(wish->stage_of, std::move(*trial));
    }
    wishes_.clear();
    return take_devices(known_devices_.empty() ? request_.devices : known_devices_);
  }

  bool keep_if_better(const std::vector<std::uint32_t>& stage_of, Trial trial) {
    if (outcome_.plan && trial.plan->step_seconds >= outcome_.plan->step_seconds) return false;
    outcome_.plan = std::move(trial.plan);
    known_ = std::move(trial.stages);
    known_devices_ = devices_->counts();
    stage_of_ = stage_of;
    return true;
  }

  // One block, or a module, more or less in the stage that takes longest: what makes the step shorter is kept, and the rest said. Pins of stages stay as they are.
  Status try_moves() {
    if (std::ranges::any_of(request_.pins, is_of_stage)) return Done{};
    for (int round = 0; round < kMostMoves; ++round) {
      const auto slowest = static_cast<std::uint32_t>(std::ranges::max_element(outcome_.plan->busy_seconds) - outcome_.plan->busy_seconds.begin());
      std::vector<std::string> notes;
      bool better = false;
      for (const std::int64_t to : {std::int64_t{slowest} - 1, std::int64_t{slowest} + 1}) {
        if (to < 0 || to >= stages_) continue;
        const std::optional<StageMove> move = move_between_stages(request_.context.model, {bound_, seconds_, stage_of_}, slowest, static_cast<std::uint32_t>(to));
        if (!move) continue;
        Result<Trial> trial = try_cut(move->stage_of);
        const std::string what = "Moving '" + move->module + "' from stage " + std::to_string(slowest) + ", which takes longest, to stage " + std::to_string(to);
        if (!trial) {
          notes.push_back(what + " is not possible: " + trial.error().message);
          continue;
        }
        notes.push_back(trial->plan ? what + " would make the step " + milliseconds(trial->plan->step_seconds) + "." : what + " would not fit.");
        better = trial->plan && keep_if_better(move->stage_of, std::move(*trial));
        if (better) break;
      }
      if (better) continue;
      outcome_.plan->notes.insert(outcome_.plan->notes.end(), notes.begin(), notes.end());
      return Done{};
    }
    return Done{};
  }

  Status compare() {
    if (!request_.usual) return Done{};
    Stopwatch watch;
    std::vector<StagePart> parts;
    for (const PlannedStage& stage : known_) parts.push_back(stage.part);
    Result<std::vector<PipelineComparison>> compared = pipeline_comparisons(request_, *outcome_.plan, parts);
    if (!compared) return compared.error();
    outcome_.comparisons = std::move(*compared);
    say_if_a_part_is_better();
    outcome_.comparisons_seconds = watch.lap();
    return Done{};
  }

  // Of a cluster of unlike devices.
  void say_if_a_part_is_better() {
    if (request_.cluster.parts.empty()) return;
    const PipelineComparison* best = nullptr;
    for (const PipelineComparison& each : outcome_.comparisons) {
      if (each.devices > 0 && each.step_seconds && *each.step_seconds < outcome_.plan->step_seconds && (best == nullptr || *each.step_seconds < *best->step_seconds)) best = &each;
    }
    if (best == nullptr) return;
    outcome_.plan->notes.push_back("No plan of all devices was found that is as fast as " + best->name + " (" + milliseconds(*best->step_seconds) + "): the others only slow it down.");
  }

  template <class Factor>
  void weigh(const Balance& balance, std::vector<double>& weights, Factor factor) const {
    for (NodeId id = 0; id < weights.size(); ++id) weights[id] *= factor(balance.stage_of[id]);
  }

  Result<Trial> try_cut(const std::vector<std::uint32_t>& stage_of) {
    Result<CutModel> cut = cut_model(graph_, stage_of, stages_);
    if (!cut) return cut.error();
    find_batches(request_.context.model, cut->boundaries);
    const Result<std::vector<std::vector<Pin>>> pins = pins_by_stage(request_.pins, *cut);
    if (!pins) return pins.error();
    std::vector<std::int64_t> budgets = first_budgets();
    for (int round = 0;; ++round) {
      Result<Trial> trial = try_budgets(*cut, *pins, budgets);
      if (!trial || !trial->plan) return trial;
      const std::optional<std::uint32_t> over = divide_budgets(*trial, budgets);
      if (!over) return trial;
      if (round < kMostDivisions) continue;
      return Trial{{}, {}, *over, "the stages that share devices do not fit into " + size_text(budget_of(*over)) + " per device together: those of stage " + std::to_string(*over) + " hold " +
                                  size_text(trial->plan->peak_bytes[groups_[*over]])};
    }
  }

  // All that a device may hold, but for stages that share it and of which somebody says what they will hold: they get such parts of it.
  [[nodiscard]] std::vector<std::int64_t> first_budgets() const {
    std::vector<std::int64_t> budgets;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) budgets.push_back(budget_of(stage));
    if (wishes_.empty()) return budgets;
    std::vector<double> sums(stages_, 0);  // by group
    for (std::uint32_t stage = 0; stage < stages_; ++stage) sums[groups_[stage]] += wishes_[stage].bytes;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      const double sum = sums[groups_[stage]];
      if (sum > 0) budgets[stage] = static_cast<std::int64_t>(static_cast<double>(budget_of(stage)) * wishes_[stage].bytes / sum);
    }
    return budgets;
  }

  // Of what a device may hold, each of the stages that share it gets a part as large as what it holds now; what they hold together is no more than the parts. A stage of a group whose
  // stages hold too much; nothing if there is none.
  std::optional<std::uint32_t> divide_budgets(const Trial& trial, std::vector<std::int64_t>& budgets) const {
    const PipelinePlan& plan = *trial.plan;
    std::optional<std::uint32_t> over;
    for (std::uint32_t group = 0; group < plan.groups(); ++group) {
      const std::int64_t most = most_of_group(trial, group);
      if (plan.peak_bytes[group] <= most) continue;
      double sum = 0;
      for (std::uint32_t stage = 0; stage < stages_; ++stage) sum += groups_[stage] == group ? static_cast<double>(plan.stages[stage].peak_bytes) : 0;
      for (std::uint32_t stage = 0; stage < stages_; ++stage) {
        if (groups_[stage] != group) continue;
        budgets[stage] = static_cast<std::int64_t>(static_cast<double>(most) * static_cast<double>(plan.stages[stage].peak_bytes) / sum);
        if (!over) over = stage;
      }
    }
    return over;
  }

  [[nodiscard]] std::int64_t budget_of(std::uint32_t stage) const { return budget_on(request_, cluster_of(stage)); }

  // What the tensors of all stages of a group may take. Where a device must hold it all, room is left for what is there besides: they share communicators, and all that is the device's own.
  [[nodiscard]] std::int64_t most_of_group(const Trial& trial, std::uint32_t group) const {
    if (!request_.must_fit_device) return request_.budget_bytes;
    const Cluster& cluster = devices_->cluster(group);
    const MemoryOverheads& overheads = cluster.device.overheads;
    std::vector<const Program*> programs;
    std::int64_t own = 0, rounding = 0;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      if (groups_[stage] != group) continue;
      const MemoryAccount& memory = trial.plan->stages[stage].memory;
      own = memory.driver_bytes + memory.context_bytes + memory.workspace_bytes + memory.reserved_bytes;
      rounding += memory.rounding_bytes;
      programs.push_back(&trial.stages[stage].found.program);
    }
    const std::int64_t rest = cluster.device.memory_bytes - own - communicators(programs) * overheads.communicator_bytes;
    return std::min(budget_on(request_, cluster), static_cast<std::int64_t>(static_cast<double>(rest) / (1 + overheads.fragmentation)) - rounding);
  }

  [[nodiscard]] StagePart part_of(const CutModel& cut, std::uint32_t stage) const {
    StagePart part = cut.part_of(stage);
    for (std::uint32_t other = 0; other < stages_; ++other) {
      if (other != stage && groups_[other] == groups_[stage]) part.beside.push_back(other);
    }
    return part;
  }

  [[nodiscard]] StageCutWish::Stage wish_of(std::uint32_t stage) const { return wishes_.empty() ? StageCutWish::Stage{request_.mesh, false} : wishes_[stage]; }

  // Whether the best cut so far has the very same stage. What else a plan depends on (order, profile, pins) goes by the stage's number and graph.
  [[nodiscard]] bool known(const CutModel& cut, std::uint32_t stage, std::int64_t budget) const {
    if (known_.empty()) return false;
    const PlannedStage& before = known_[stage];
    const StagePart part = part_of(cut, stage);
    return known_devices_ == devices_->counts() && before.budget == budget && before.wish == wish_of(stage) && before.graph == cut.graphs[stage] && before.part.boundaries == part.boundaries && before.part.shared == part.shared;
  }

  // `budgets` by stage.
  Result<Trial> try_budgets(const CutModel& cut, const std::vector<std::vector<Pin>>& pins, const std::vector<std::int64_t>& budgets) {
    PipelinePlan plan;
    plan.boundaries = cut.boundaries;
    plan.shared = cut.shared;
    if (request_.schedule.shape.chunks > 1) plan.orders = orders_;
    std::vector<Program> programs;
    std::vector<CostProfile> profiles;
    std::vector<PlannedStage> planned;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      TrainingSettings training = request_.context.training;
      training.order = order_text(orders_[groups_[stage]], stage);
      const Result<StepOrder> order = step_order(training);
      if (!order) return order.error();
      plan.in_flight.push_back(order->fullest(Phase::forward).in_flight);
      profiles.push_back(profile_of_stage(request_.context.profile, *devices_, groups_, cut.part_of(stage), cut.graphs[stage], training));
      Result<FoundStage> found = known(cut, stage, budgets[stage]) ? known_[stage].found : plan_stage(cut, stage, training, profiles.back(), pins[stage], budgets[stage]);
      if (!found) return add_context("stage " + std::to_string(stage), found.error());
      if (!found->plan) return Trial{{}, {}, stage, std::move(found->refusal)};
      plan.stages.push_back(*found->plan);
      programs.push_back(found->program);
      planned.push_back({cut.graphs[stage], part_of(cut, stage), budgets[stage], wish_of(stage), std::move(*found)});
    }
    if (Status status = simulate(programs, profiles, plan); !status) return status.error();
    return Trial{std::move(plan), std::move(planned), 0, ""};
  }

  Result<FoundStage> plan_stage(const CutModel& cut, std::uint32_t stage, const TrainingSettings& training, const CostProfile& profile, const std::vector<Pin>& pins, std::int64_t budget) {
    Result<ModelAnalysis> model = analyze_model(cut.graphs[stage], request_.context.ops);
    if (!model) return model.error();
    if (!model->backward) return model->no_backward;
    const StagePart part = part_of(cut, stage);
    const PlanningContext context{*model, training, request_.context.ops, profile, request_.context.conversions, &part};
    const StageCutWish::Stage wish = wish_of(stage);
    Result<PlanRanking> ranking = rank_wished({context, cluster_of(stage), request_.solver, request_.search, [&](const Plan& plan) { return request_.lower(plan, context); }, request_.checkpoint, pins,
                                              request_.mesh, budget, request_.must_fit_device, 1, true, false, false}, wish);
    if (!ranking) return ranking.error();
    outcome_.strategies_seconds += ranking->strategies_seconds;
    outcome_.search_seconds += ranking->search_seconds;
    if (ranking->plans.empty()) {
      const FittedPlan* smallest = ranking->smallest ? &*ranking->smallest : nullptr;
      const DeviceSpec* device = request_.must_fit_device ? &cluster_of(stage).device : nullptr;
      const std::string share = budget == budget_of(stage) ? "" : " (its part of " + size_text(budget_of(stage)) + ", which the stages on its devices share)";
      return FoundStage{{}, {}, "stage " + std::to_string(stage) + " of " + std::to_string(stages_) + share + ": " +
                                    refusal_text(ranking->trials, smallest, ranking->smallest_budget_bytes, budget, device)};
    }
    FittedPlan& best = ranking->plans.front().fitted;
    if (!best.no_program.empty()) return bad_input("its plan has no program: " + best.no_program);
    best.plan.cluster = cluster_of(stage);
    best.plan.budget_bytes = budget;
    Result<Program> program = request_.lower(best.plan, context);
    if (!program) return program.error();
    return FoundStage{std::move(best.plan), std::move(*program), ""};
  }

  Status simulate(const std::vector<Program>& programs, const std::vector<CostProfile>& profiles, PipelinePlan& plan) const {
    plan.schedule = request_.schedule_id;
    const Result<PipelineStep> step = simulate_stages(programs, request_.context.ops, profiles, plan.orders);
    if (!step) return step.error();
    plan.peak_bytes = peaks_of_groups(programs, joint_order(programs, plan.orders).value(), groups_);
    plan.step_seconds = step->step_seconds;
    plan.busy_seconds = step->busy_seconds;
    plan.bubble = step->bubble;
    plan.imbalance = step->imbalance;
    plan.communication = step->communication;
    plan.start = step->start;
    return Done{};
  }

  const PipelineRequest& request_;
  const std::uint32_t stages_;                // positions of the schedule
  const GroupOrders orders_;
  const std::vector<std::uint32_t> groups_;  // by stage
  const Graph& graph_;
  std::optional<StageDevices> devices_;  // by group
  std::vector<double> seconds_;  // by node, on one device
  PipelineOutcome outcome_;
  std::vector<StageCutWish::Stage> wishes_;  // of the cut that is planned; empty: nobody said
  // Of the best cut so far.
  std::vector<std::uint32_t> stage_of_;
  std::vector<PlannedStage> known_;
  std::vector<std::int64_t> known_devices_;  // by group
  std::vector<bool> bound_;  // by node: depends on parameters, so that it is in one stage
};

}  // namespace

std::int64_t budget_on(const PipelineRequest& request, const Cluster& devices) { return request.must_fit_device ? largest_peak_bytes(devices) : request.budget_bytes; }

Result<PipelineOutcome> plan_pipeline(const PipelineRequest& request) { return PipelinePlanner(request).run(); }

}  // namespace meshwright
