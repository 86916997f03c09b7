#include "plugins/stage_grid_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "files/count_limits.h"
#include "stage_devices.h"
#include "step_floor.h"
#include "stopwatch.h"

namespace meshwright::host {

namespace {

constexpr double kTicksApart = 1e-9;  // of floors, which are sums in another order than the simulation's

std::vector<std::int64_t> divisors_of(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= std::min(number, most); ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

class GridPlanner {
 public:
  GridPlanner(PluginHost& host, PlanningSession session) : host_(host), config_(host.config()), session_(std::move(session)) {}

  Result<PlanOutcome> run() {
    Stopwatch watch;
    if (Status status = read_sizes(); !status) return status.error();
    for (const std::int64_t microbatches : microbatches_) {
      if (Status status = add_choices(microbatches); !status) return status.error();
    }
    const double floors = watch.lap();
    const Result<std::optional<std::size_t>> best = search_stage_grid(search_.trials, [this](StageTrial& trial) { return plan(trial); });
    if (!best) return best.error();
    if (!*best && std::ranges::all_of(search_.trials, [](const StageTrial& trial) { return trial.state == TrialState::refused; })) return bad_input(search_.trials.front().reason);
    PlanOutcome outcome = *best ? std::move(*best_) : refusal();
    outcome.phases.strategies = floors + strategies_seconds_;
    outcome.phases.search = search_seconds_;
    outcome.phases.total = floors + watch.lap();
    say_what_is_left_out();
    if (outcome.plan) outcome.plan->notes.push_back(chosen_note(search_.trials));
    if (outcome.pipeline) outcome.pipeline->notes.push_back(chosen_note(search_.trials));
    outcome.stage_search = std::move(search_);
    return outcome;
  }

 private:
  // Numbers of stages, schedules and microbatches.
  Status read_sizes() {
    const Config& search = config_.search;
    const std::int64_t given = config_.train.integer("microbatches");
    if (Status status = session_.read(config_.free_microbatches ? 1 : given); !status) return status;
    microbatches_ = config_.free_microbatches ? divisors_of(session_.batch(), kMostMicrobatches) : std::vector{given};
    stages_ = config_.given.stages ? std::vector{search.integer("stages")} : divisors_of(session_.cluster().devices(), kMostScheduleStages);
    if (config_.given.schedule) {
      schedules_ = {search.text("schedule")};
      return Done{};
    }
    for (const std::string& id : host_.registry().ids("schedules")) {
      const Result<std::vector<std::string>> suffixes = host_.served_by("schedules", id);
      if (!suffixes) return suffixes.error();
      if (suffixes->empty()) schedules_.push_back(id);  // the others read a file
    }
    return Done{};
  }

  // All of so many microbatches.
  Status add_choices(std::int64_t microbatches) {
    if (Status status = session_.read(microbatches); !status) {
      if (status.error().code != ErrorCode::bad_input || microbatches == microbatches_.front()) return status;
      search_.left_out.push_back(std::to_string(microbatches) + " microbatches: " + status.error().message);
      return Done{};
    }
    for (const std::int64_t stages : stages_) {
      const auto count = static_cast<std::uint32_t>(stages);
      const Result<Cluster> cluster = cluster_of_stage(session_.cluster(), count);
      if (!cluster) {
        refuse({count, "", microbatches}, cluster.error().message);
        continue;
      }
      const Result<std::vector<LeastComputing>> least = least_computing(session_.context(), *cluster, config_.search, session_.mesh(), kMostAxes);
      if (!least && least.error().code != ErrorCode::bad_input) return least.error();
      if (!least) refuse({count, "", microbatches}, least.error().message);
      else if (stages == 1) add({1, "", microbatches}, least_step_seconds(*least, microbatches));
      else if (Status status = add_schedules(count, microbatches, *least); !status) return status;
    }
    return Done{};
  }

  Status add_schedules(std::uint32_t stages, std::int64_t microbatches, const std::vector<LeastComputing>& least) {
    std::vector<std::pair<std::string, PipelineSchedule>> seen;
    for (const std::string& id : schedules_) {
      const StageChoice choice{stages, id, microbatches};
      set(choice);
      const Result<PipelineSchedule> schedule = session_.schedule();
      if (!schedule && schedule.error().code != ErrorCode::bad_input) return schedule.error();
      if (!schedule) {
        refuse(choice, schedule.error().message);
        continue;
      }
      const auto same = std::ranges::find(seen, *schedule, &std::pair<std::string, PipelineSchedule>::second);
      if (same != seen.end()) {
        refuse(choice, "the same order as " + same->first);
        continue;
      }
      add(choice, least_step_seconds(least, *schedule));
      seen.emplace_back(id, *schedule);
    }
    return Done{};
  }

  void add(const StageChoice& choice, double floor_seconds) {
    StageTrial& trial = search_.trials.emplace_back();
    trial.choice = choice;
    trial.floor_seconds = floor_seconds * (1 - kTicksApart);
  }

  void refuse(const StageChoice& choice, const std::string& reason) {
    StageTrial& trial = search_.trials.emplace_back();
    trial.choice = choice;
    trial.state = TrialState::refused;
    trial.reason = reason;
  }

  void set(const StageChoice& choice) {
    session_.search().set("stages", std::int64_t{choice.stages});
    session_.search().set("chunks", choice.stages == 1 ? std::int64_t{0} : config_.search.integer("chunks"));
    if (!choice.schedule.empty()) session_.search().set("schedule", choice.schedule);
  }

  Status plan(StageTrial& trial) {
    if (Status status = session_.read(trial.choice.microbatches); !status) return status;
    set(trial.choice);
    Result<PlanOutcome> outcome = session_.plan();
    if (!outcome && outcome.error().code != ErrorCode::bad_input) return outcome.error();
    if (!outcome) {
      trial.state = TrialState::refused;
      trial.reason = outcome.error().message;
      return Done{};
    }
    strategies_seconds_ += outcome->phases.strategies;
    search_seconds_ += outcome->phases.search;
    if (!outcome->plan && !outcome->pipeline) {
      trial.state = TrialState::unfit;
      trial.reason = outcome->refusal;
      if (!refused_) refused_ = std::move(*outcome);
      return Done{};
    }
    trial.state = TrialState::planned;
    if (outcome->plan) {
      trial.step_seconds = outcome->plan->step_seconds;
      trial.peak_bytes = outcome->plan->peak_bytes;
      trial.floor_seconds = std::max(trial.floor_seconds, outcome->plan->step_lower_bound_seconds);
    } else {
      trial.step_seconds = outcome->pipeline->step_seconds;
      trial.peak_bytes = std::ranges::max(outcome->pipeline->peak_bytes);
      trial.bubble = outcome->pipeline->bubble;
    }
    if (best_seconds_ && trial.step_seconds >= *best_seconds_) return Done{};
    best_seconds_ = trial.step_seconds;
    best_ = std::move(*outcome);
    return Done{};
  }

  // Of what was tried first.
  PlanOutcome refusal() {
    PlanOutcome outcome = std::move(*refused_);
    outcome.refusal = "no plan fits, with any number of stages that was tried:";
    for (const StageTrial* trial : best_by_stages(search_.trials)) outcome.refusal += "\n  " + to_string(trial->choice) + ": " + trial->reason;
    outcome.changes.clear();
    return outcome;
  }

  void say_what_is_left_out() {
    std::vector<std::string>& said = search_.left_out;
    if (config_.given.stages) said.push_back("other numbers of stages than " + std::to_string(stages_.front()) + ", which the configuration gives");
    else said.emplace_back("numbers of stages that do not divide the devices, and devices left idle");
    if (config_.given.schedule) said.push_back("other schedules than " + schedules_.front() + ", which the configuration gives");
    if (!config_.free_microbatches) said.push_back("other numbers of microbatches than " + std::to_string(microbatches_.front()) + ", which the configuration gives");
    if (const std::int64_t chunks = config_.search.integer("chunks"); chunks > 0) said.push_back("other numbers of chunks than " + std::to_string(chunks) + ", which the configuration gives");
    else said.emplace_back("other numbers of chunks than what a schedule usually has");
    said.emplace_back("stages of unlike numbers of devices");
    said.emplace_back("cuts beyond those that balance the stages by what they take, and moves of a module out of the slowest stage");
  }

  static constexpr std::size_t kMostAxes = 3;  // of meshes, as the planner tries them

  PluginHost& host_;
  const HostConfig& config_;
  PlanningSession session_;
  std::vector<std::int64_t> stages_, microbatches_;
  std::vector<std::string> schedules_;
  StageSearch search_;
  std::optional<PlanOutcome> best_, refused_;
  std::optional<double> best_seconds_;
  double strategies_seconds_ = 0, search_seconds_ = 0;
};

}  // namespace

Result<PlanOutcome> plan_stage_grid(const PlanOptions& options, PluginHost& host) {
  if (!options.known.empty()) return bad_input("--known " + options.known + " is of plans of one stage, and inter = \"grid\" in [search] chooses their number; leave one out");
  if (options.top > 1) return bad_input("--top " + std::to_string(options.top) + " is of plans of one stage, and inter = \"grid\" in [search] chooses their number; leave one out");
  PlanOptions each = options;
  each.usual = false;  // what other stages take stands beside the plan
  each.name_budget = false;
  Result<PlanningSession> session = PlanningSession::open(each, host);
  if (!session) return session.error();
  return GridPlanner(host, std::move(*session)).run();
}

}  // namespace meshwright::host
