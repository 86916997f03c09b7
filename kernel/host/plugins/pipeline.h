// From a model file to a plan: composes the plugins that the configuration names.
//
//   frontend → analysis → the planner (planning/planner.h) → what a plan does not say of itself
//
// Deterministic: the same files and options give the same plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan_options.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"
#include "meshwright/schedule.h"
#include "pipeline_comparisons.h"
#include "planner.h"
#include "plugins/plugin_host.h"
#include "stage_cut_wish.h"
#include "stage_grid.h"

namespace meshwright::host {

// Seconds of wall time. They go to the terminal, never into the plan file.
struct PhaseSeconds {
  double plugins = 0;     // loading them and making their objects; finding their files comes before
  double frontend = 0;    // reading the model
  double strategies = 0;  // atoms, strategies and prices
  double search = 0;      // reduction and solver
  double comparisons = 0;
  double runner_up = 0;   // finding it, and what would make it win
  double total = 0;
};

// A single change of what the user gave that may make a plan fit.
struct Suggestion {
  std::string change;  // "train.microbatches=4", "2 times the nodes"
  PlanOptions options;
  std::int64_t about_bytes = 0;  // what the smallest plan that is known would hold then, estimated; 0 if nobody can say
};

// What was planned for, also where there is no plan.
struct AskedFor {
  ModelAnalysis model;
  TrainingSettings training;
  Cluster cluster;  // with the profiler's figures
  std::int64_t budget_bytes = 0;
  bool holds_device = false;  // Nobody gave a budget: a plan is held against all of the device.
};

// What was tried where the number of stages is chosen.
struct StageSearch {
  std::string by;                  // "trying", "a joint search", "pipedream"
  std::vector<StageTrial> trials;  // of all combinations
  std::vector<std::string> left_out;  // sentences: what was not considered
};

struct PlanOutcome {
  std::optional<Plan> plan;  // nothing if no mesh has a plan that fits, or there are several stages
  std::optional<PipelinePlan> pipeline;  // of several stages; nothing if one of them has no plan that fits
  std::vector<Plan> next;    // the other ones of PlanOptions::top, by simulated step; `plan` is the first of them all
  bool may_have_more = false;  // fewer than asked for, since looking for more was given up
  std::vector<MeshTrial> trials;
  std::vector<Comparison> comparisons;
  std::vector<PipelineComparison> pipeline_comparisons;  // of several stages
  std::optional<StageSearch> stage_search;               // of [search] inter but "none" and "manual"
  PhaseSeconds phases;
  std::int64_t batch = 1;      // samples of a step
  std::size_t variables = 0;   // of the chosen mesh's problem
  std::size_t strategies = 0;
  std::string refusal;  // why there is no plan
  std::vector<Suggestion> changes;  // that might help then
  DeviceSpec device;                // with the profiler's figures
  AskedFor asked;
};

// Plugins that are loaded and a model that is read, once for any number of plans.
class PlanningSession {
 public:
  // Both must outlive it. Errors: bad_input, plugin_failed.
  static Result<PlanningSession> open(const PlanOptions& options, PluginHost& host);
  ~PlanningSession();
  PlanningSession(PlanningSession&&) noexcept;

  // The model with its batch in so many parts, from here on; what was read before is kept. Errors: those of reading, analyzing and profiling.
  Status read(std::int64_t microbatches);

  // Of what was read last.
  [[nodiscard]] PlanningContext context() const;
  [[nodiscard]] const Cluster& cluster() const;
  [[nodiscard]] std::int64_t batch() const;  // samples of a step

  [[nodiscard]] std::int64_t budget_bytes() const;
  [[nodiscard]] const IntraSolver& solver() const;
  // A plan's program, of a model that was analyzed for this session.
  [[nodiscard]] Result<Program> program(const Plan& plan, const PlanningContext& context) const;

  // [search] as it is used from here on, with the mesh of [cluster].
  Config& search();
  std::string& mesh();

  // As [search] says. Errors: bad_input. That nothing fits is an outcome without a plan.
  Result<PlanOutcome> plan();
  // Cut, and on meshes, as somebody says; one stage as the first cut says.
  Result<PlanOutcome> plan(StageCuts cuts);
  // The order of so many microbatches, as [search] says. Errors: bad_input, where the schedule has none for so many stages or microbatches.
  Result<PipelineSchedule> schedule(std::int64_t microbatches);

 private:
  class Impl;
  explicit PlanningSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Errors: bad_input (a file, an option; microbatches = "free", which plan_with_free_microbatches settles), plugin_failed. That nothing fits is no error but an outcome without a plan.
Result<PlanOutcome> run_pipeline(const PlanOptions& options, PluginHost& host);

}  // namespace meshwright::host
