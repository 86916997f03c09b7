// A model on a cluster as a StepProblem (placement.h), by which Alpa and DAPPLE choose stages, and their answers as cuts with a mesh for each stage.
//
// Nodes are the units of the model (model_units.h), as in placed_stages.h. A way is a mesh of as many devices as a stage may have: 1, 2, 4, ... of a server, all of it, or so many servers as divide all that there
// are. What units take in it is measured (unit_costs.h) where few of the model's layers are split over that mesh as the exact search finds it fastest, keeping all that the backward needs, or running it again.
//
//   Alpa      each mesh of up to two axes, weights and ZeRO as [search] says or the search likes
//   DAPPLE    one axis, which shards the batch alone; weights are whole on each device
//
//   seconds   of a microbatch: the computing, or the communication beside it where that takes longer. Once a step: updates, and what they wait for of sums of gradients
//   crossing  what the whole crosses between two units, over the slowest link of the cluster
#pragma once

#include <cstdint>
#include <memory>

#include "meshwright/placement.h"
#include "placed_stages.h"

namespace meshwright {

class StepWays {
 public:
  // All that the request refers to outlives it, and its wishes. Errors: those of short_model and SplitWays::make; bad_input where nothing can be measured.
  static Result<StepWays> make(const PlacedWaysRequest& request, const ModelUnits& units, StepObjective objective);

  // Whether what is kept may run again, and those ways are not there yet: they are no faster, and hold less.
  [[nodiscard]] bool may_run_again() const;
  // Errors: those of SplitWays::make.
  Status add_running_again();

  [[nodiscard]] StepProblem problem(const PlacedLine& line, std::uint32_t microbatches, double device_bytes) const;

  // Stages of a model of more than so many ops are put together as the few layers were split (assembled_stage.h), where that can be; others are searched for on their mesh.
  [[nodiscard]] StageCutWish wish(const PlacementAnswer& answer, std::int64_t most_searched_ops) const;

 private:
  struct Impl;
  explicit StepWays(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // wishes have a part in it
};

}  // namespace meshwright
