// A cut of a model into stages that somebody asks for, with the mesh of each stage, and a plan of it where that is known without a search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "meshwright/pipeline_plan.h"

namespace meshwright {

// The plan of a stage within a budget, made of what is known of its units; nothing where that makes none that fits.
using StageAssembler = std::function<Result<std::optional<FittedPlan>>(const PlanningContext& stage, const FittedSolver& solver, std::int64_t budget)>;

struct StageCutWish {
  struct Stage {
    std::string mesh;             // "2x4"
    bool batch_first = false;     // its first axis only ever shards the batch
    double bytes = 0;             // what a device is expected to hold of it: stages that share devices divide their memory so
    StageAssembler assemble = {};  // null: nothing is known
    bool searched = true;          // false: what cannot be assembled so that it fits is not searched for

    bool operator==(const Stage& other) const { return mesh == other.mesh && batch_first == other.batch_first; }
  };
  std::vector<std::uint32_t> stage_of;  // by node of the whole model, as cut_model has it
  std::vector<Stage> stages;            // by position of the schedule
  std::vector<std::int64_t> devices = {};  // by group of stages; empty: as the request says
  bool operator==(const StageCutWish&) const = default;
};

// Cuts to plan, one after the other.
struct StageCuts {
  // The next one; nothing: no other one. `planned`: the plan of the one before, null where there was none or it did not fit. An error ends the planning.
  std::function<Result<std::optional<StageCutWish>>(const PipelinePlan* planned)> next = {};
  bool balanced_too = false;  // behind them those that a planner tries by itself

  [[nodiscard]] bool is_given() const { return next != nullptr; }
};

}  // namespace meshwright
