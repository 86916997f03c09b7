// A model on a cluster as the placement problems of the literature (placement.h), and their answers as cuts of the model into stages with a mesh for each.
//
// The nodes of a problem are the units of the model (model_units.h), one behind the other, each joined to the next one by what crosses there; the forward and the backward of a unit are one node. A sample of a
// problem is a microbatch of the context that the units were made of. What problems say of a unit:
//
//   seconds       ReplicaProblem, LoadProblem: forward and backward by the clock of one device. LayerProblem: as measured (measured_ways) with so many devices of tensor parallelism
//   parameters    bytes of those of which the unit is the first user; of a LayerProblem the part of them that a device keeps
//   memory        on a device, as measured (unit_costs.h): parameters with gradients and the optimizer's state, and what the forward keeps of a microbatch. LoadProblem: the sum of both, since one microbatch is
//                 all that problem knows of. LayerProblem: "fixed" and "of each stage in flight". What only passes while a unit computes is in neither
//   bandwidth     of the slowest link between devices of the cluster, over those that share it. PipeDream's hierarchy of links is not in the problem
//
// No problem knows of ZeRO, of communication beside computing, of updates, or of weights that two units share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/placement.h"
#include "meshwright/planning_context.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/solver.h"
#include "model_units.h"
#include "stage_cut_wish.h"
#include "unit_costs.h"

namespace meshwright {

// What is said of units whatever the problem.
struct PlacedLine {
  ModelUnits units;
  std::vector<double> seconds;          // by unit
  std::vector<double> parameter_bytes;  // by unit
  std::uint32_t devices = 1;            // of the cluster
  double bytes_per_second = 0;          // of the slowest link
  double latency_seconds = 0;           // of that link
};

PlacedLine placed_line(const Graph& graph, ModelUnits units, const Cluster& cluster);

// What units take when `tensor` devices compute them together.
struct PlacedWay {
  std::uint32_t tensor = 1;
  std::string name;               // a LayerVariant's: "vanilla", "activation recomp"
  std::vector<UnitCost> by_kind;  // of units
};

// All that it refers to outlives the call.
struct PlacedWaysRequest {
  PlanningContext context;  // of the whole model
  const Cluster& cluster;
  const IntraSolver& solver;
  const Config& search;     // `recompute` says which variants there are
  std::function<Result<Program>(const Plan&, const PlanningContext&)> lower;
};

// For 1, 2, 4, ... devices, at most `most_devices` and a server's: the fastest way to compute few of the model's layers with every weight that can be in shards over them and no ZeRO, found by the exact search and
// measured by units. Ascending; a degree that no strategy allows is left out. Errors: those of short_model and SplitWays::make.
Result<std::vector<PlacedWay>> measured_ways(const PlacedWaysRequest& request, const ModelUnits& units, std::int64_t most_devices);

// What a problem of a step says of a unit. As a stage's costs are read of its units (stage_line.h): communication that takes longer than the computing beside it makes that longer; that of the last backward is waited for
// before the updates.
StepCost step_cost(const UnitCost& cost);

ReplicaProblem replica_problem(const PlacedLine& line);

// `alone` is of one device, whose memory a stage may take `device_bytes` of. Accelerators alone; forward and gradient of a value are handed on, so that a transfer counts twice.
LoadProblem load_problem(const PlacedLine& line, const PlacedWay& alone, double device_bytes);

// `ways` begin with those of one device, and have the same names for each degree.
LayerProblem layer_problem(const PlacedLine& line, const std::vector<PlacedWay>& ways, std::uint32_t samples, double device_bytes);

// Into how many microbatches a plan cuts a batch whose answer is of so many samples: as many as make each of them the samples that all stages compute at the same time, one in each replica (the least common
// multiple of their replicas); where the samples are no multiple of that, as many of the samples' divisors as leave microbatches that the replicas of each stage can share evenly. Nothing where none does.
std::optional<std::int64_t> placed_microbatches(const PlacementAnswer& answer, std::int64_t samples, std::int64_t batch);

// The answer's stages, one for each position: d replicas of t devices are a mesh d x t, of which the first axis only ever shards the batch.
StageCutWish placed_wish(const ModelUnits& units, const PlacementAnswer& answer);

}  // namespace meshwright
