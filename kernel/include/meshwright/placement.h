// Placement: which nodes of a graph of costs make up which stage of a pipeline, and on how many devices each stage
// runs. A problem is one of three that the literature states, each with its own costs and its own objective; the
// solvers are plugins of kind "inter".
//
//   LoadProblem     Tarnawski et al. 2020, "Efficient Algorithms for Device Placement of DNN Graph Operators": every
//                   device is one stage, and the objective is the largest load of any device.
//   ReplicaProblem  Narayanan et al. 2019, "PipeDream" (§3.1): stages are replicated.
//   LayerProblem    Tarnawski et al. 2021, "Piper: Multidimensional Planner for DNN Parallelization" (§3): stages are
//                   replicated and split by tensor parallelism, and each layer chooses how it runs.
//
// In all of them stages come in the order in which data passes through them, each node is in one stage, and no edge
// leads from a later stage to an earlier one. Seconds are of one sample (a microbatch), and the objective is seconds
// between two samples once the pipeline is full: less is better.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/solve_status.h"

namespace meshwright {

struct PlacementEdge {
  std::uint32_t from = 0;  // the node that makes the value
  std::uint32_t to = 0;    // the node that reads it
  double bytes = 0;        // of a LayerProblem alone: what crosses between two stages, per sample
};

struct LoadNode {
  std::string name;
  double accelerator_seconds = 0;
  double host_seconds = 0;
  double memory_bytes = 0;      // on an accelerator
  double transfer_seconds = 0;  // to bring what it makes into an accelerator, or out of one
  bool accelerator = true;      // false: it must be on a host
  bool backward = false;        // it belongs to the backward pass
  std::uint32_t group = 0;      // nodes of one group are on one device
};

// A stage is on an accelerator or on a host (one core). An accelerator's load is the seconds of its nodes, and
// transfer_seconds of each node, its own or another, that has an edge into it or out of it: once each. A host's load is
// the seconds of its nodes, and its memory has no limit. No edge between forward nodes leads to an earlier stage;
// backward nodes go where their group is. Of a group without a forward node, edges between backward nodes lead to the
// same or to an earlier stage, as they do for all others.
struct LoadProblem {
  std::vector<LoadNode> nodes;
  std::vector<PlacementEdge> edges;
  std::uint32_t accelerators = 0;
  std::uint32_t hosts = 0;
  double accelerator_bytes = 0;
};

struct ReplicaNode {
  std::string name;
  double seconds = 0;  // forward and backward
  double output_bytes = 0;
  double parameter_bytes = 0;
};

// All devices are used. With m replicas a stage takes the most of: (c + 4 (m - 1) w / (B m)) / m for its compute c and
// its parameters w, and, unless it is the first, 2 a / (B m) for what the stages before it hand on, and, unless it is
// the first or the last, the same for what it and they hand on. What is handed on is the output of every node that a
// later stage reads.
struct ReplicaProblem {
  std::vector<ReplicaNode> nodes;
  std::vector<PlacementEdge> edges;
  std::uint32_t devices = 0;
  double bytes_per_second = 0;
};

// One way to run a layer with a given degree of tensor parallelism.
struct LayerVariant {
  std::string name;  // "vanilla", "activation recomp"
  double seconds = 0;
  double parameter_bytes = 0;           // w
  double bytes_per_stage_in_flight = 0;  // a
  double fixed_bytes = 0;               // b
  // Beside the edge's own bytes, when the edge crosses between stages: for each of the node's incoming and outgoing
  // edges, in the order of the problem's edges.
  std::vector<double> input_bytes;
  std::vector<double> output_bytes;
};

struct LayerDegree {
  std::uint32_t tensor = 1;  // devices for one replica
  std::vector<LayerVariant> variants;
};

struct LayerNode {
  std::string name;
  std::vector<LayerDegree> degrees;  // ascending; a degree that is not there can't be chosen
};

// A stage with d replicas of t devices takes Σ seconds / d + 2 Σ crossing bytes / (d B) + 4 (d - 1) Σ w / (d N B) for
// N samples of a batch and B bytes a second. It needs y Σ a + Σ b bytes on each device, y being the replicas of this
// stage and of all behind it, divided by d, rounded up. Each d divides N, and all of them together are at most N.
struct LayerProblem {
  std::vector<LayerNode> nodes;
  std::vector<PlacementEdge> edges;
  std::uint32_t devices = 0;
  std::uint32_t samples = 0;  // N
  double device_bytes = 0;
  double bytes_per_second = 0;
};

using PlacementProblem = std::variant<LoadProblem, ReplicaProblem, LayerProblem>;

// "max_load", "pipedream", "piper": also the id of the solver that gives the optimum.
MESHWRIGHT_API std::string_view name(const PlacementProblem& problem);

inline constexpr std::uint32_t kMostPlacementDevices = 1U << 16;  // of any problem; more is a mistake
inline constexpr std::size_t kMostPlacementNodes = std::size_t{1} << 14;

// There are nodes, edges join two different ones of them, no number is negative or not finite, what divides is above
// 0, and no edge is part of a cycle. Error: bad_input with the node or the edge.
MESHWRIGHT_API Status validate(const PlacementProblem& problem);

struct PlacementStage {
  std::vector<std::uint32_t> nodes;  // ascending
  bool host = false;                 // of a LoadProblem
  std::uint32_t replicas = 1;        // d
  std::uint32_t tensor = 1;          // t; of a LayerProblem, so that the stage has d * t devices
  std::vector<std::uint32_t> variants;  // of a LayerProblem: for each of `nodes` the place in its variants for t
};

struct PlacementCost {
  double objective = 0;         // the largest of `seconds`
  std::vector<double> seconds;  // of each stage, per sample
  std::vector<double> bytes;    // of each stage, on each of its devices; 0 where the problem has no memory
};

// What a list of stages costs by the definitions above, whoever made it. Errors: bad_input with the stage and the rule
// that it breaks: a node that is missing or there twice, an edge that leads back, devices, degrees or memory that the
// problem does not have.
MESHWRIGHT_API Result<PlacementCost> evaluate(const PlacementProblem& problem, std::span<const PlacementStage> stages);

struct PlacementAnswer {
  SolveStatus status = SolveStatus::heuristic;  // optimal, heuristic or infeasible
  double objective = 0;                         // what the solver claims; 0 if infeasible
  std::vector<PlacementStage> stages;           // in the order of data; empty if infeasible
  std::string method;   // what the solver did, in a few words: "17914 ideals"
  std::string binding;  // if infeasible: why, as a sentence
};

class MESHWRIGHT_API InterSolver {
 public:
  virtual ~InterSolver();

  // The problem is validated before, and the answer behind: its stages are evaluated and must cost what is claimed, to
  // a relative 1e-9. The objective that comes out is the evaluated one. Implementations keep nothing and are
  // deterministic. Errors: bad_input (the problem, or one that the solver does not know, by name), plugin_failed (the
  // answer).
  Result<PlacementAnswer> solve(const PlacementProblem& problem) const;

 private:
  virtual Result<PlacementAnswer> do_solve(const PlacementProblem& problem) const = 0;
};

// "max_load solves LoadProblems; this is ...": what a solver answers to a problem of another kind.
MESHWRIGHT_API Error other_problem(std::string_view solver, const PlacementProblem& problem);

}  // namespace meshwright
