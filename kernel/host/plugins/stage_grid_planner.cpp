#include "plugins/stage_grid_planner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster_part.h"
#include "plugins/stage_trials.h"
#include "stage_devices.h"
#include "step_floor.h"
#include "stopwatch.h"
#include "units.h"

namespace meshwright::host {

namespace {

constexpr double kTicksApart = 1e-9;  // of floors, which are sums in another order than the simulation's

class GridPlanner {
 public:
  GridPlanner(PluginHost& host, PlanningSession session) : host_(host), config_(host.config()), trials_(config_, std::move(session)) {}

  Result<PlanOutcome> run() {
    Stopwatch watch;
    Result<StageSizes> sizes = read_stage_sizes(host_, trials_.session());
    if (!sizes) return sizes.error();
    sizes_ = std::move(*sizes);
    for (const std::int64_t microbatches : sizes_.microbatches) {
      if (Status status = add_choices(microbatches); !status) return status.error();
    }
    const double floors = watch.lap();
    const Result<std::optional<std::size_t>> best = search_stage_grid(search_.trials, [this](StageTrial& trial) { return trials_.plan(trial); });
    if (!best) return best.error();
    say_what_is_left_out();
    return trials_.finish(std::move(search_), floors);
  }

  // Of a cluster of unlike devices, once it was read.
  [[nodiscard]] const Cluster& cluster() { return trials_.session().cluster(); }

 private:
  // All of so many microbatches.
  Status add_choices(std::int64_t microbatches) {
    if (Status status = trials_.session().read(microbatches); !status) {
      if (status.error().code != ErrorCode::bad_input || microbatches == sizes_.microbatches.front()) return status;
      search_.left_out.push_back(std::to_string(microbatches) + " microbatches: " + status.error().message);
      return Done{};
    }
    PlanningSession& session = trials_.session();
    for (const std::int64_t stages : sizes_.stages) {
      const auto count = static_cast<std::uint32_t>(stages);
      const Result<StageDevices> devices = StageDevices::even(session.cluster(), count);
      if (!devices) {
        refuse({count, "", microbatches}, devices.error().message);
        continue;
      }
      const Result<std::vector<LeastComputing>> least = least_of_stages(*devices);
      if (!least && least.error().code != ErrorCode::bad_input) return least.error();
      if (!least) refuse({count, "", microbatches}, least.error().message);
      else if (stages == 1) add({1, "", microbatches}, least_step_seconds(*least, microbatches));
      else if (Status status = add_schedules(count, microbatches, *least); !status) return status;
    }
    return Done{};
  }

  // Of a stage of whichever devices are the fastest.
  Result<std::vector<LeastComputing>> least_of_stages(const StageDevices& devices) {
    PlanningSession& session = trials_.session();
    std::vector<LeastComputing> least;
    std::set<std::string> seen;
    for (std::uint32_t group = 0; group < devices.groups(); ++group) {
      const Cluster& cluster = devices.cluster(group);
      if (!seen.insert(cluster.name).second) continue;
      const PlanningContext whole = session.context();
      const CostProfile profile = profile_on(whole.profile, cluster.device, whole.training);
      const Result<std::vector<LeastComputing>> here =
          least_computing({whole.model, whole.training, whole.ops, profile, whole.conversions}, cluster, config_.search, session.mesh(), kMostAxes);
      if (!here) return here;
      least.resize(here->size(), kNoLeast);
      for (std::size_t id = 0; id < here->size(); ++id) {
        least[id].forward_seconds = std::min(least[id].forward_seconds, (*here)[id].forward_seconds);
        least[id].whole_seconds = std::min(least[id].whole_seconds, (*here)[id].whole_seconds);
      }
    }
    return least;
  }

  Status add_schedules(std::uint32_t stages, std::int64_t microbatches, const std::vector<LeastComputing>& least) {
    std::vector<std::pair<std::string, PipelineSchedule>> seen;
    for (const std::string& id : sizes_.schedules) {
      const StageChoice choice{stages, id, microbatches};
      const Result<PipelineSchedule> schedule = trials_.schedule(choice);
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

  void say_what_is_left_out() {
    std::vector<std::string>& said = search_.left_out;
    for (std::string& each : left_out_by(config_, sizes_)) said.push_back(std::move(each));
    said.emplace_back("numbers of stages that do not divide the devices, and stages of unlike numbers of devices");
    if (config_.search.integer("chunks") == 0) said.emplace_back("other numbers of chunks than what a schedule usually has");
    said.emplace_back("cuts beyond those that balance the stages by what they take, and moves of a module out of the slowest stage");
  }

  static constexpr std::size_t kMostAxes = 3;  // of meshes, as the planner tries them

  PluginHost& host_;
  const HostConfig& config_;
  StageTrials trials_;
  StageSizes sizes_;
  StageSearch search_{"trying", {}, {}};
};

// What one part would do alone.
struct PartAlone {
  std::string name;  // part_text
  std::optional<double> step_seconds;
  std::string found;  // how, or why there is no plan
};

PartAlone part_alone(std::string name, const Result<PlanOutcome>& outcome) {
  PartAlone alone{std::move(name), std::nullopt, ""};
  const StageTrial* chosen = outcome && outcome->stage_search ? shortest_of(outcome->stage_search->trials) : nullptr;
  if (chosen == nullptr) {
    const std::string& reason = outcome ? outcome->refusal : outcome.error().message;
    alone.found = reason.substr(0, reason.find('\n'));
    return alone;
  }
  alone.step_seconds = chosen->step_seconds;
  alone.found = to_string(chosen->choice);
  return alone;
}

// Whether all devices pay, beside the fastest part alone.
std::string parts_note(const std::vector<PartAlone>& parts, double step_seconds) {
  const PartAlone* best = nullptr;
  std::string others;
  for (const PartAlone& part : parts) {
    if (part.step_seconds && (best == nullptr || *part.step_seconds < *best->step_seconds)) best = &part;
    others += (others.empty() ? "" : "; ") + part.name + " alone" + (part.step_seconds ? " take " + milliseconds(*part.step_seconds) + " (" + part.found + ")" : ": " + part.found);
  }
  if (best == nullptr || *best->step_seconds >= step_seconds) return "Of its parts, each tried likewise: " + others + ".";
  return "No plan of all devices was found that is as fast as " + best->name + " alone: the others only slow it down. Each part tried likewise: " + others + ".";
}

// Equal parts have the same plans.
Result<std::vector<PartAlone>> parts_alone(const PlanOptions& options, PluginHost& host, const Cluster& cluster) {
  std::vector<PartAlone> made;
  for (std::size_t i = 0; i < cluster.parts.size(); ++i) {
    const std::string name = part_text(cluster, cluster.parts[i]);
    if (std::ranges::find(made, name, &PartAlone::name) != made.end()) continue;
    PlanOptions alone = options;
    alone.only_part = i + 1;
    Result<PlanningSession> session = open_for_trials(alone, host);
    if (!session) return session.error();
    const Result<PlanOutcome> outcome = GridPlanner(host, std::move(*session)).run();
    if (!outcome && outcome.error().code != ErrorCode::bad_input) return outcome.error();
    made.push_back(part_alone(name, outcome));
  }
  return made;
}

}  // namespace

Result<PlanOutcome> plan_stage_grid(const PlanOptions& options, PluginHost& host) {
  const PlanOptions each = for_trials(options);
  Result<PlanningSession> session = open_for_trials(each, host);
  if (!session) return session.error();
  GridPlanner planner(host, std::move(*session));
  Result<PlanOutcome> outcome = planner.run();
  const Cluster cluster = planner.cluster();
  if (!outcome || cluster.parts.empty() || (!outcome->plan && !outcome->pipeline)) return outcome;
  Stopwatch watch;
  const Result<std::vector<PartAlone>> alone = parts_alone(each, host, cluster);
  if (!alone) return alone.error();
  outcome->phases.comparisons += watch.lap();
  if (outcome->plan) outcome->plan->notes.push_back(parts_note(*alone, outcome->plan->step_seconds));
  if (outcome->pipeline) outcome->pipeline->notes.push_back(parts_note(*alone, outcome->pipeline->step_seconds));
  return outcome;
}

}  // namespace meshwright::host
