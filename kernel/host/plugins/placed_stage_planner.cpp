#include "plugins/placed_stage_planner.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "idle_devices.h"
#include "meshwright/placement.h"
#include "placed_menus.h"
#include "placed_stages.h"
#include "placed_steps.h"
#include "plugins/stage_trials.h"
#include "stage_balance.h"
#include "stage_devices.h"
#include "stopwatch.h"

namespace meshwright::host {

namespace {

enum class PlacementKind : std::uint8_t { load, replicas, layers, alpa_steps, dapple_steps, menus };
constexpr PlacementKind kPlacementKinds[] = {PlacementKind::load, PlacementKind::replicas, PlacementKind::layers, PlacementKind::alpa_steps, PlacementKind::dapple_steps, PlacementKind::menus};
constexpr double kCountedOnSteps[] = {1, 0.93, 0.86};  // of a device's memory: where what a solver says fits does not fit, it is asked again
constexpr double kRoomy = 1e18;                        // bytes

StepObjective objective_of(PlacementKind kind) { return kind == PlacementKind::dapple_steps ? StepObjective::dapple : StepObjective::alpa; }

// A node on a device: who knows such problems takes it, and who does not says so.
PlacementProblem smallest_problem(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::load: return LoadProblem{{{"node", 1}}, {}, 1, 0, 1};
    case PlacementKind::replicas: return ReplicaProblem{{{"node", 1}}, {}, 1, 1};
    case PlacementKind::layers: return LayerProblem{{{"node", {{1, {{"vanilla", 1, 0, 0, 0, {}, {}}}}}}}, {}, 1, 1, 1, 1};
    case PlacementKind::menus: return MenuProblem{{{"node"}}, {{1, {{"one device", {{1, 1}}}}, {}}}, 1, 1, 1};
    default: return StepProblem{objective_of(kind), {{"node"}}, {{"1", 1, {{1, 1}}}}, {}, 1, 1, 1};
  }
}

// What the solver says is nowhere else.
Status check_left_to_solver(const HostConfig& config, const std::string& inter) {
  const auto pin = std::ranges::find_if(config.pins, is_of_stage);
  const std::array said = {std::pair(config.given.stages, std::string("\"stages\" in [search]")), std::pair(!config.cluster.text("mesh").empty(), std::string("the mesh of each stage")),
                           std::pair(config.search.text("batch_axes") != "none", std::string("\"batch_axes\" in [search]")),
                           std::pair(config.search.text("context_axes") != "none", std::string("\"context_axes\" in [search]")),
                           std::pair(config.search.text("expert_axes") != "none", std::string("\"expert_axes\" in [search]")),
                           std::pair(config.search.integer("chunks") > 1, std::string("\"chunks\" in [search]")),
                           std::pair(pin != config.pins.end(), pin == config.pins.end() ? std::string() : pin->where + ": the stage of a module")};
  for (const auto& [is_said, what] : said) {
    if (is_said) return bad_input(what + " is what inter = \"" + inter + "\" in [search] decides; leave one of them out, or take inter = \"grid\"");
  }
  return Done{};
}

// What an entry of a menu says of each layer.
Status check_left_to_menu(const HostConfig& config, const std::string& inter) {
  for (const auto& [key, free] : {std::pair("weights", "free"), std::pair("zero", "free"), std::pair("zero_axes", "all")}) {
    if (config.search.text(key) != free) return bad_input("\"" + std::string(key) + "\" in [search] is what inter = \"" + inter + "\" in [search] decides for each layer; leave it out");
  }
  return Done{};
}

// Tensor parallelism as a solver knows it, and no ZeRO, unless the user says otherwise.
void set_usual_parallelism(Config& search) {
  if (search.text("weights") == "free") search.set("weights", std::string("sharded"));
  if (search.text("zero") == "free") search.set("zero", std::string("0"));
}

std::string replicas_text(const PlacementAnswer& answer) {
  std::string text;
  for (const PlacementStage& stage : answer.stages) text += (text.empty() ? "" : ", ") + std::to_string(stage.replicas);
  return text;
}

std::string samples_text(std::int64_t samples) { return std::to_string(samples) + (samples == 1 ? " sample" : " samples"); }

class PlacedPlanner {
 public:
  PlacedPlanner(PluginHost& host, PlanningSession session, std::string inter, const InterSolver& solver)
      : config_(host.config()), trials_(config_, std::move(session)), inter_(std::move(inter)), solver_(solver) {
    search_.by = inter_;
  }

  Result<PlanOutcome> run(PluginHost& host) {
    const Result<StageSizes> sizes = read_stage_sizes(host, trials_.session());
    if (!sizes) return sizes.error();
    if (Status status = check_equal_devices(trials_.session().cluster(), inter_); !status) return status.error();
    if (Status status = find_kind(); !status) return status.error();
    if (Status status = kind_ == PlacementKind::menus ? check_left_to_menu(config_, inter_) : Status(Done{}); !status) return status.error();
    if (kind_ != PlacementKind::alpa_steps) set_usual_parallelism(trials_.session().search());
    given_microbatches_ = config_.free_microbatches ? 0 : sizes->microbatches.front();
    for (const std::int64_t samples : is_of_steps() ? sizes->microbatches : numbers_of_samples()) {
      if (Status status = try_samples(samples); !status) return status.error();
    }
    say_what_is_left_out();
    const bool all_refused = std::ranges::all_of(search_.trials, [](const StageTrial& trial) { return trial.state == TrialState::refused; });
    if (all_refused) return nothing_planned();
    std::vector<std::string> notes = notes_;
    Result<PlanOutcome> outcome = trials_.finish(std::move(search_), seconds_);
    if (outcome) complete(host, *outcome, notes);
    return outcome;
  }

 private:
  // An answer, made to use the devices that it left idle.
  struct Solved {
    PlacementAnswer answer;
    std::int64_t idle = 0;  // which it left idle
  };

  struct Tried {
    StageChoice choice;
    StageCutWish wish;
    std::int64_t samples = 1;
  };

  // Whose objective is a step's seconds, and whose samples are microbatches.
  [[nodiscard]] bool is_of_steps() const { return kind_ == PlacementKind::alpa_steps || kind_ == PlacementKind::dapple_steps || kind_ == PlacementKind::menus; }

  Status find_kind() {
    for (const PlacementKind kind : kPlacementKinds) {
      const PlacementProblem problem = smallest_problem(kind);
      const Result<PlacementAnswer> answer = solver_.solve(problem);
      if (!answer && answer.error().message.ends_with(other_problem("", problem).message)) continue;
      kind_ = kind;
      return Done{};
    }
    return bad_input("inter = \"" + inter_ + "\" in [search]: that solver knows none of the problems that are made of a model: of load, of replicas, of layers, of a step, of menus (max_load, pipedream, piper, alpa, dapple, galvatron)");
  }

  // A step is cut into so many: where the number of microbatches is given, each of them may be several samples.
  [[nodiscard]] std::vector<std::int64_t> numbers_of_samples() {
    const std::int64_t batch = trials_.session().batch(), least = std::max<std::int64_t>(given_microbatches_, 1);
    std::vector<std::int64_t> numbers;
    for (std::int64_t samples = least; samples <= std::min<std::int64_t>(batch, kMostPlacementDevices); samples += least) {
      if (batch % samples == 0) numbers.push_back(samples);
    }
    if (numbers.empty()) numbers.push_back(least);
    return numbers;
  }

  Status try_samples(std::int64_t samples) {
    Stopwatch watch;
    PlanningSession& session = trials_.session();
    if (Status status = session.read(samples); !status) {
      if (status.error().code != ErrorCode::bad_input) return status;
      refuse({0, "", samples}, status.error().message);
      return Done{};
    }
    const PlanningContext context = session.context();
    Result<ModelUnits> units = model_units(context);
    if (!units) return units.error();
    units_ = units->units.size();
    const PlacedLine line = placed_line(context.graph(), std::move(*units), session.cluster());
    seconds_ += watch.lap();
    if (is_of_steps() && is_hopeless(line, samples)) return Done{};
    if (kind_ == PlacementKind::menus) return try_menus(line, context, samples);
    if (is_of_steps()) return try_steps(line, context, samples);
    const Result<Solved> solved = solve(line, samples);
    seconds_ += watch.lap();
    if (!solved) return solved.error();
    if (solved->answer.status == SolveStatus::infeasible) return say_none_fit(solved->answer, samples);
    const std::optional<std::int64_t> microbatches = placed_microbatches(solved->answer, samples, session.batch());
    if (!microbatches) {
      refuse(choice_of(solved->answer, samples),
             "its stages have " + replicas_text(solved->answer) + " replicas, which can't all share a microbatch of a batch of " + std::to_string(session.batch()) + " evenly");
      return Done{};
    }
    return try_answer(*solved, placed_wish(line.units, solved->answer), samples, *microbatches);
  }

  // Whether devices that are each as fast as one alone would take longer than the best.
  bool is_hopeless(const PlacedLine& line, std::int64_t microbatches) {
    double alone = 0;
    for (const double seconds : line.seconds) alone += seconds;
    const bool hopeless = trials_.best_seconds() && static_cast<double>(microbatches) * alone / line.devices >= *trials_.best_seconds();
    hopeless_ += hopeless ? 1 : 0;
    return hopeless;
  }

  Status say_none_fit(const PlacementAnswer& answer, std::int64_t samples) {
    StageTrial& trial = add({0, "", samples});
    trial.state = TrialState::unfit;
    trial.reason = "no stages fit: " + answer.binding;
    return Done{};
  }

  PlacedWaysRequest ways_request(const PlanningContext& context) {
    PlanningSession& session = trials_.session();
    return {context, session.cluster(), session.solver(), session.search(), [&session](const Plan& plan, const PlanningContext& of) { return session.program(plan, of); }};
  }

  // Alpa's and DAPPLE's samples are microbatches. Where their stages don't fit when they are planned, they are asked for such as hold less.
  Status try_steps(const PlacedLine& line, const PlanningContext& context, std::int64_t microbatches) {
    Stopwatch watch;
    PlanningSession& session = trials_.session();
    const PlacedWaysRequest request = ways_request(context);
    Result<StepWays> ways = StepWays::make(request, line.units, objective_of(*kind_));
    if (!ways && ways.error().code != ErrorCode::bad_input) return ways.error();
    if (!ways) {
      refuse({0, "", microbatches}, ways.error().message);
      return Done{};
    }
    for (const double counted_on : kCountedOnSteps) {
      const Result<Solved> solved = solve_steps(*ways, line, microbatches, counted_on * static_cast<double>(session.budget_bytes()));
      seconds_ += watch.lap();
      if (!solved) return solved.error();
      if (solved->answer.status == SolveStatus::infeasible) return say_none_fit(solved->answer, microbatches);
      const std::int64_t most_searched_ops = config_.pins.empty() ? config_.joint.integer("most_searched_ops") : std::numeric_limits<std::int64_t>::max();
      const StageCutWish wish = ways->wish(solved->answer, most_searched_ops);
      const StageChoice choice = choice_of(solved->answer, microbatches);
      const bool is_known = std::ranges::any_of(tried_, [&](const Tried& one) { return one.choice == choice && one.wish == wish; });
      if (is_known) continue;  // it did not fit
      if (Status status = try_answer(*solved, wish, microbatches, microbatches); !status) return status;
      watch.lap();
      if (search_.trials.back().state != TrialState::unfit) break;
    }
    return Done{};
  }

  Status try_menus(const PlacedLine& line, const PlanningContext& context, std::int64_t microbatches) {
    Stopwatch watch;
    PlanningSession& session = trials_.session();
    const PlacedWaysRequest request = ways_request(context);
    const Result<std::vector<MeasuredMenu>> menus = measured_menus(request, line.units);
    if (!menus && menus.error().code != ErrorCode::bad_input) return menus.error();
    if (!menus) {
      refuse({0, "", microbatches}, menus.error().message);
      return Done{};
    }
    for (const double counted_on : kCountedOnSteps) {
      const PlacementProblem problem = menu_problem(line, *menus, static_cast<std::uint32_t>(microbatches), counted_on * static_cast<double>(session.budget_bytes()));
      Result<PlacementAnswer> answer = solver_.solve(problem);
      seconds_ += watch.lap();
      if (!answer) return add_context("inter solver '" + inter_ + "'", answer.error());
      if (answer->status == SolveStatus::infeasible) return say_none_fit(*answer, microbatches);
      layouts_ = layouts_text(*menus, *answer);
      const StageCutWish wish = menu_wish(context.graph(), line.units, *menus, *answer, session.search(), config_.pins);
      if (Status status = try_answer({std::move(*answer), 0}, wish, microbatches, microbatches); !status) return status;
      watch.lap();
      if (search_.trials.back().state != TrialState::unfit) break;
    }
    return Done{};
  }

  // What runs again is no faster: such ways are looked for where memory binds.
  Result<Solved> solve_steps(StepWays& ways, const PlacedLine& line, std::int64_t microbatches, double bytes) {
    const auto problem = [&](double limit) { return PlacementProblem(ways.problem(line, static_cast<std::uint32_t>(microbatches), limit)); };
    const auto in_context = [&](const Error& error) { return add_context("inter solver '" + inter_ + "'", error); };
    if (ways.may_run_again()) {
      Result<PlacementAnswer> roomy = solver_.solve(problem(kRoomy));
      if (!roomy) return in_context(roomy.error());
      if (roomy->status != SolveStatus::infeasible && evaluate(problem(bytes), roomy->stages)) return Solved{std::move(*roomy), 0};
      if (Status status = ways.add_running_again(); !status) return status.error();
    }
    Result<PlacementAnswer> answer = solver_.solve(problem(bytes));
    if (!answer) return in_context(answer.error());
    return Solved{std::move(*answer), 0};
  }

  Result<PlacementProblem> problem(PlacementKind kind, const PlacedLine& line, std::int64_t samples) {
    if (kind == PlacementKind::replicas) return PlacementProblem(replica_problem(line));
    PlanningSession& session = trials_.session();
    const PlanningContext context = session.context();
    const PlacedWaysRequest request = ways_request(context);
    const Result<std::vector<PlacedWay>> ways = measured_ways(request, line.units, kind == PlacementKind::load ? 1 : std::int64_t{line.devices});
    if (!ways) return ways.error();
    const auto bytes = static_cast<double>(session.budget_bytes());
    if (kind == PlacementKind::load) return PlacementProblem(load_problem(line, ways->front(), bytes));
    return PlacementProblem(layer_problem(line, *ways, static_cast<std::uint32_t>(samples), bytes));
  }

  Result<Solved> solve(const PlacedLine& line, std::int64_t samples) {
    const Result<PlacementProblem> made = problem(*kind_, line, samples);
    if (!made) return made.error();
    Result<PlacementAnswer> answer = solver_.solve(*made);
    if (!answer) return add_context("inter solver '" + inter_ + "'", answer.error());
    const std::int64_t idle = line.devices - devices_of(*answer);
    return Solved{with_idle_devices_used(*made, std::move(*answer), line.devices), idle};
  }

  [[nodiscard]] StageChoice choice_of(const PlacementAnswer& answer, std::int64_t microbatches) const {
    StageChoice choice{static_cast<std::uint32_t>(answer.stages.size()), "", microbatches};
    if (choice.stages > 1) choice.schedule = config_.search.text("schedule");
    std::vector<std::int64_t> devices;
    for (const PlacementStage& stage : answer.stages) devices.push_back(std::int64_t{stage.replicas} * stage.tensor);
    if (std::ranges::adjacent_find(devices, std::ranges::not_equal_to()) != devices.end()) choice.devices = std::move(devices);
    return choice;
  }

  Status try_answer(const Solved& solved, const StageCutWish& wish, std::int64_t samples, std::int64_t microbatches) {
    const StageChoice choice = choice_of(solved.answer, microbatches);
    if (const std::string reason = why_unplannable(choice, wish, samples); !reason.empty()) {
      refuse(choice, reason);
      return Done{};
    }
    tried_.push_back({choice, wish, samples});
    StageTrial& trial = add(choice);
    notes_.back() = note_of(solved, samples, choice.microbatches);
    bool given = false;
    const auto next = [&](const PipelinePlan*) -> Result<std::optional<StageCutWish>> { return std::exchange(given, true) ? std::nullopt : std::optional(wish); };
    if (Status status = trials_.plan(trial, {next, false}); !status) return status;
    trial.floor_seconds = 0;  // what a plan's bound says holds for these stages alone
    return Done{};
  }

  // "" if nothing speaks against it.
  std::string why_unplannable(const StageChoice& choice, const StageCutWish& wish, std::int64_t samples) {
    if (given_microbatches_ > 0 && choice.microbatches != given_microbatches_) {
      return "its stages make " + samples_text(samples) + " into " + std::to_string(choice.microbatches) + " microbatches, and the configuration gives " + std::to_string(given_microbatches_);
    }
    const auto same = std::ranges::find_if(tried_, [&](const Tried& one) { return one.choice == choice && one.wish == wish; });
    if (same != tried_.end()) return "the same stages as of " + samples_text(same->samples);
    if (const Result<StageDevices> devices = StageDevices::make(trials_.session().cluster(), wish.devices); !devices) return devices.error().message;
    if (choice.stages == 1) return "";
    const Result<PipelineSchedule> schedule = trials_.schedule(choice);
    if (!schedule) return schedule.error().message;
    if (schedule->shape.chunks > 1) return "\"schedule\" in [search] is \"" + choice.schedule + "\", which cuts each stage into " + std::to_string(schedule->shape.chunks) + " chunks, and the solver knows of one; take \"one_f_one_b\"";
    for (std::uint32_t stage = 0; stage < choice.stages; ++stage) {
      if (schedule->position(stage, 0) != stage) return "\"schedule\" in [search] is \"" + choice.schedule + "\", whose stages are not in the order of their devices, as the solver's are; take \"one_f_one_b\"";
    }
    return "";
  }

  [[nodiscard]] std::string note_of(const Solved& solved, std::int64_t samples, std::int64_t microbatches) const {
    const PlacementAnswer& answer = solved.answer;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.4g", answer.objective);
    const std::string of = is_of_steps() ? " s for a step of " + std::to_string(samples) + (samples == 1 ? " microbatch" : " microbatches") : " s for each of " + samples_text(samples);
    std::string note = "Stages by " + inter_ + ": " + std::string(name(answer.status)) + " for its own problem (" + answer.method + "), " + seconds + of;
    if (samples > microbatches) note += ", of which a microbatch is " + std::to_string(samples / microbatches);
    if (solved.idle > 0) note += "; it leaves " + std::to_string(solved.idle) + " devices idle, for which stages were cut in two as far as that takes no longer by that problem";
    if (!layouts_.empty()) note += "; layouts: " + layouts_;
    return note + ". That says nothing of what other stages would take by this clock.";
  }

  StageTrial& add(const StageChoice& choice) {
    StageTrial& trial = search_.trials.emplace_back();
    trial.choice = choice;
    notes_.emplace_back();
    return trial;
  }

  void refuse(const StageChoice& choice, std::string reason) {
    StageTrial& trial = add(choice);
    trial.state = TrialState::refused;
    trial.reason = std::move(reason);
  }

  [[nodiscard]] Error nothing_planned() const {
    std::string text = "inter = \"" + inter_ + "\" in [search]: none of its stages can be planned:";
    for (const StageTrial& trial : search_.trials) text += "\n  " + to_string(trial.choice) + ": " + trial.reason;
    return bad_input(text + "\n  joint and grid find stages of what there is");
  }

  void say_what_is_left_out() {
    std::vector<std::string>& said = search_.left_out;
    said.push_back("all stages but those that " + inter_ + " finds best by its own problem, of each number of " + (is_of_steps() ? "microbatches" : "samples") + " in a step");
    if (hopeless_ > 0) said.push_back(std::to_string(hopeless_) + " numbers of microbatches of which all devices, each as fast as one alone, would take longer than the best plan");
    said.push_back("other schedules than " + config_.search.text("schedule"));
    if (given_microbatches_ > 0) said.push_back("other numbers of microbatches than " + std::to_string(given_microbatches_) + ", which the configuration gives");
    said.push_back("cuts inside of the " + std::to_string(units_) + " parts of the model at whose ends least crosses");
  }

  void complete(PluginHost& host, PlanOutcome& outcome, const std::vector<std::string>& notes) const {
    const Result<const PluginInfo*> info = host.registry().find("inter", inter_);
    const UsedPlugin used{"inter", inter_, info ? (*info)->version : ""};
    const std::vector<StageTrial>& trials = outcome.stage_search->trials;
    const StageTrial* chosen = shortest_of(trials);
    const std::string note = chosen == nullptr ? "" : notes[static_cast<std::size_t>(chosen - trials.data())];
    if (outcome.plan) {
      outcome.plan->notes.push_back(note);
      outcome.plan->plugins.push_back(used);
    }
    if (!outcome.pipeline) return;
    outcome.pipeline->notes.push_back(note);
    outcome.pipeline->plugins.push_back(used);
    for (Plan& stage : outcome.pipeline->stages) stage.plugins.push_back(used);
  }

  const HostConfig& config_;
  StageTrials trials_;
  const std::string inter_;
  const InterSolver& solver_;
  std::optional<PlacementKind> kind_;
  std::int64_t given_microbatches_ = 0;  // 0: any number
  std::size_t units_ = 0, hopeless_ = 0;
  std::string layouts_;  // of the last answer, where the solver knows menus
  std::vector<Tried> tried_;
  std::vector<std::string> notes_;  // by trial
  StageSearch search_;
  double seconds_ = 0;  // of making problems and solving them
};

}  // namespace

Result<PlanOutcome> plan_placed_stages(const PlanOptions& options, PluginHost& host) {
  const std::string inter = host.config().search.text("inter");
  if (Status status = check_left_to_solver(host.config(), inter); !status) return status.error();
  const PlanOptions each = for_trials(options);
  Result<PlanningSession> session = open_for_trials(each, host);
  if (!session) return session.error();
  const Result<std::shared_ptr<InterSolver>> solver = host.create<InterSolver>("inter", inter);
  if (!solver) return solver.error();
  return PlacedPlanner(host, std::move(*session), inter, **solver).run(host);
}

}  // namespace meshwright::host
