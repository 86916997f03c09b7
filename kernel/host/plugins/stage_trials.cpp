#include "plugins/stage_trials.h"

#include <algorithm>
#include <utility>

#include "cluster_part.h"
#include "files/count_limits.h"
#include "stage_devices.h"
#include "stopwatch.h"

namespace meshwright::host {

namespace {

std::vector<std::int64_t> divisors_of(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= std::min(number, most); ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

}  // namespace

PlanOptions for_trials(PlanOptions options) {
  options.usual = false;
  options.name_budget = false;
  return options;
}

Result<PlanningSession> open_for_trials(const PlanOptions& options, PluginHost& host) {
  const std::string chooses = " is of plans of one stage, and inter = \"" + host.config().search.text("inter") + "\" in [search] chooses their number; leave one out";
  if (!options.known.empty()) return bad_input("--known " + options.known + chooses);
  if (options.top > 1) return bad_input("--top " + std::to_string(options.top) + chooses);
  return PlanningSession::open(options, host);
}

Status check_equal_devices(const Cluster& cluster, const std::string& inter) {
  if (cluster.parts.empty()) return Done{};
  return bad_input("inter = \"" + inter + "\" in [search] is of equal devices so far, and '" + cluster.name + "' has " + parts_text(cluster) +
                   "; take inter = \"grid\", or say how many devices each stage gets (\"stage_devices\")");
}

Result<StageSizes> read_stage_sizes(PluginHost& host, PlanningSession& session) {
  const HostConfig& config = host.config();
  const std::int64_t given = config.train.integer("microbatches");
  if (Status status = session.read(config.free_microbatches ? 1 : given); !status) return status.error();
  StageSizes sizes;
  sizes.microbatches = config.free_microbatches ? divisors_of(session.batch(), kMostMicrobatches) : std::vector{given};
  sizes.stages = config.given.stages ? std::vector{config.search.integer("stages")} : divisors_of(session.cluster().devices(), kMostScheduleStages);
  if (config.given.schedule) {
    sizes.schedules = {config.search.text("schedule")};
    return sizes;
  }
  for (const std::string& id : host.registry().ids("schedules")) {
    const Result<std::vector<std::string>> suffixes = host.served_by("schedules", id);
    if (!suffixes) return suffixes.error();
    if (suffixes->empty()) sizes.schedules.push_back(id);  // the others read a file
  }
  return sizes;
}

std::vector<std::string> left_out_by(const HostConfig& config, const StageSizes& sizes) {
  std::vector<std::string> said;
  if (config.given.stages) said.push_back("other numbers of stages than " + std::to_string(sizes.stages.front()) + ", which the configuration gives");
  else said.emplace_back("devices left idle");
  if (config.given.schedule) said.push_back("other schedules than " + sizes.schedules.front() + ", which the configuration gives");
  if (!config.free_microbatches) said.push_back("other numbers of microbatches than " + std::to_string(sizes.microbatches.front()) + ", which the configuration gives");
  if (const std::int64_t chunks = config.search.integer("chunks"); chunks > 0) said.push_back("other numbers of chunks than " + std::to_string(chunks) + ", which the configuration gives");
  return said;
}

StageTrials::StageTrials(const HostConfig& config, PlanningSession session) : config_(config), session_(std::move(session)) {}

void StageTrials::set(const StageChoice& choice) {
  Config& search = session_.search();
  search.set("stages", std::int64_t{choice.stages});
  search.set("chunks", choice.stages == 1 ? std::int64_t{0} : choice.chunks > 0 ? std::int64_t{choice.chunks} : config_.search.integer("chunks"));
  if (!choice.schedule.empty()) search.set("schedule", choice.schedule);
  search.set("stage_devices", choice.devices.empty() ? config_.search.text("stage_devices") : stage_devices_text(choice.devices));
}

Result<PipelineSchedule> StageTrials::schedule(const StageChoice& choice) {
  set(choice);
  return session_.schedule(choice.microbatches);
}

Status StageTrials::plan(StageTrial& trial, StageCuts cuts) {
  Stopwatch watch;
  if (Status status = session_.read(trial.choice.microbatches); !status) return status;
  set(trial.choice);
  Result<PlanOutcome> outcome = session_.plan(std::move(cuts));
  plan_seconds_ += watch.lap();
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

Result<PlanOutcome> StageTrials::finish(StageSearch search, double other_seconds) {
  const auto is_refused = [](const StageTrial& trial) { return trial.state == TrialState::refused; };
  if (!best_ && std::ranges::all_of(search.trials, is_refused)) return bad_input(search.trials.empty() ? "there is no number of stages that could be tried" : search.trials.front().reason);
  PlanOutcome outcome = best_ ? std::move(*best_) : refusal(search.trials);
  outcome.phases.strategies = other_seconds + strategies_seconds_;
  outcome.phases.search = search_seconds_;
  outcome.phases.total = other_seconds + plan_seconds_;
  if (outcome.plan) outcome.plan->notes.push_back(chosen_note(search.trials, search.by));
  if (outcome.pipeline) outcome.pipeline->notes.push_back(chosen_note(search.trials, search.by));
  outcome.stage_search = std::move(search);
  return outcome;
}

// Of what was tried first.
PlanOutcome StageTrials::refusal(const std::vector<StageTrial>& trials) {
  PlanOutcome outcome = refused_ ? std::move(*refused_) : PlanOutcome{};
  outcome.batch = session_.batch();
  outcome.device = session_.cluster().device;  // whoever compares plans hands it on, also where none was tried
  outcome.refusal = "no plan fits, with any number of stages that was tried:";
  for (const StageTrial* trial : best_by_stages(trials)) outcome.refusal += "\n  " + to_string(trial->choice) + ": " + trial->reason;
  outcome.changes.clear();
  return outcome;
}

}  // namespace meshwright::host
