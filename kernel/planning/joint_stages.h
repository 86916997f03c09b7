// [search] inter = "joint": numbers of stages, schedules, chunks, microbatches, cuts and meshes, chosen together by what the units of a model take.
//
//   the model's units and a short model that has each kind of them (model_units.h)
//   for each number of microbatches and of devices in a stage, the most promising first: on each mesh the fastest way to split the short model, and ways that hold less (split_ways.h)
//   for each schedule: the best cut of the whole line (stage_line.h), and its simulated order of events; then the same with stages of unlike numbers of devices, over those for which ways are known
//
// So a model of a hundred equal layers on a thousand devices is searched by solving for two layers on a few dozen meshes. What comes out are estimates, in whose order plans are made. What no
// step can be below (step_floor.h) is found for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/planning_context.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/schedule.h"
#include "meshwright/solver.h"
#include "pins.h"
#include "stage_cut_wish.h"
#include "stage_grid.h"

namespace meshwright {

// All that it refers to outlives the search.
struct JointStagesRequest {
  PlanningContext context;  // of the whole model, in any number of microbatches
  const Cluster& cluster;
  const IntraSolver& solver;
  const Config& search;
  const std::vector<Pin>& pins;
  std::string mesh;         // of each stage; "": all that are worth trying
  std::int64_t budget_bytes = 0;
  std::int64_t most_searched_ops = 0;  // of a model each of whose stages is searched for; those of larger ones are put together
  bool allow_coupling = false;  // of samples by ops that mix them (microbatches.h)
  std::vector<std::int64_t> stages, microbatches;  // ascending
  std::vector<std::int64_t> unlike_stages;  // numbers of stages that may have unlike numbers of devices
  std::vector<std::string> schedules;
  std::uint32_t chunks = 0;  // of each stage; 0: what schedules know
  std::function<Result<PipelineSchedule>(const StageChoice&)> schedule;
  std::function<Result<Program>(const Plan&, const PlanningContext&)> lower;
};

class JointStages {
 public:
  // Errors: those of reading the model's units.
  static Result<JointStages> make(const JointStagesRequest& request);
  JointStages(JointStages&&) noexcept;
  ~JointStages();

  // All that was considered, each `estimated`, `unfit` or `refused`. Errors: those of solving and lowering.
  Result<std::vector<StageTrial>> search();
  // What was not, in sentences.
  [[nodiscard]] const std::vector<std::string>& left_out() const;

  // Whether the model has so few ops that each stage is searched for, on all meshes, and plans need not be as few as can be.
  [[nodiscard]] bool is_small() const;
  // Of an estimated one, what it takes where a device's memory counts, if that was not looked at since even without it was no better than the best; it may be that nothing fits. Steps much longer than
  // `worth_seconds` are worth no effort. Errors: those of solving and lowering.
  Status settle(StageTrial& trial, double worth_seconds);
  // How it would be planned. Of an estimated and settled one.
  [[nodiscard]] StageCutWish wish(const StageChoice& choice) const;
  // The same once a plan of that wish says what its stages take, by position; nothing where that leads to no other cut.
  std::optional<StageCutWish> wish_after(const StageChoice& choice, const std::vector<double>& busy_seconds);
  // The same where its plan did not fit: less memory is counted on. Nothing where no cut fits then. Errors: those of solving and lowering.
  Result<std::optional<StageCutWish>> smaller_wish(const StageChoice& choice);

 private:
  class Impl;
  explicit JointStages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwright
