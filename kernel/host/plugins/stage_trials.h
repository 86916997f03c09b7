// What those have in common who choose the number of stages, schedules and microbatches ([search] inter = "grid" and "joint"): what they may choose among, and how a choice is planned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/plan_options.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace meshwright::host {

// Of each of them: a plan is set beside no usual one, since what other stages take stands there, and a refusal tries no budgets.
PlanOptions for_trials(PlanOptions options);

// A session for plans that stand beside each other. Errors: bad_input for options that are of one plan's search; those of opening.
Result<PlanningSession> open_for_trials(const PlanOptions& options, PluginHost& host);

// Errors: bad_input for a cluster of unlike devices, of which `inter` knows nothing.
Status check_equal_devices(const Cluster& cluster, const std::string& inter);

// What the configuration gives of these is all there is.
struct StageSizes {
  std::vector<std::int64_t> stages, microbatches;  // numbers that divide the devices, and the batch; ascending
  std::vector<std::string> schedules;              // plugins that read no file
};

// The session has read the model afterwards, whole or in as many microbatches as the configuration says. Errors: those of reading.
Result<StageSizes> read_stage_sizes(PluginHost& host, PlanningSession& session);

// Sentences: what the configuration leaves out, and whoever tries such sizes.
std::vector<std::string> left_out_by(const HostConfig& config, const StageSizes& sizes);

class StageTrials {
 public:
  StageTrials(const HostConfig& config, PlanningSession session);

  [[nodiscard]] PlanningSession& session() { return session_; }
  [[nodiscard]] const std::optional<double>& best_seconds() const { return best_seconds_; }

  // Makes the session's next plan one of this choice.
  void set(const StageChoice& choice);
  // Its order of microbatches. Errors: bad_input.
  Result<PipelineSchedule> schedule(const StageChoice& choice);

  // Fills in what planning says of it. Errors: plugin_failed.
  Status plan(StageTrial& trial, StageCuts cuts = {});

  // The best plan, or why there is none, beside what all trials came to. `other_seconds` of wall time went into the choice itself. Errors: bad_input where all were refused.
  Result<PlanOutcome> finish(StageSearch search, double other_seconds);

 private:
  PlanOutcome refusal(const std::vector<StageTrial>& trials);

  const HostConfig& config_;
  PlanningSession session_;
  std::optional<PlanOutcome> best_, refused_;
  std::optional<double> best_seconds_;
  double strategies_seconds_ = 0, search_seconds_ = 0, plan_seconds_ = 0;
};

}  // namespace meshwright::host
