// Placement: which nodes of a graph of costs make up which stage of a pipeline, and on how many devices each stage
// runs. A problem is one of those that the literature states, each with its own costs and its own objective; the
// solvers are plugins of kind "inter".
//
//   LoadProblem     Tarnawski et al. 2020, "Efficient Algorithms for Device Placement of DNN Graph Operators": every
//                   device is one stage, and the objective is the largest load of any device.
//   ReplicaProblem  Narayanan et al. 2019, "PipeDream" (§3.1): stages are replicated.
//   LayerProblem    Tarnawski et al. 2021, "Piper: Multidimensional Planner for DNN Parallelization" (§3): stages are
//                   replicated and split by tensor parallelism, and each layer chooses how it runs.
//   StepProblem     Zheng et al. 2022, "Alpa" (§5.2), and Fan et al. 2021, "DAPPLE" (§4.1): how a stage runs is a choice
//                   among ways on some number of devices, and the objective is a whole step, which fills and drains.
//   MenuProblem     Miao et al. 2022, "Galvatron" (§3): stages have as many devices each, and each layer chooses from a
//                   menu how it runs there; the objective is a whole step too.
//
// In all of them stages come in the order in which data passes through them, each node is in one stage, and no edge
// leads from a later stage to an earlier one. Seconds are of one sample (a microbatch), and the objective is seconds
// between two samples once the pipeline is full, of a StepProblem and a MenuProblem those of a step: less is better.
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

// What a node takes in one way to run the stage that it is in.
struct StepCost {
  double forward_seconds = 0;   // of a microbatch
  double backward_seconds = 0;  // of a microbatch
  double once_seconds = 0;      // of a step: sums of gradients that nothing hides, and updates
  double resident_bytes = 0;    // on each device, all the time
  double saved_bytes = 0;       // on each device, of each microbatch in flight
  double passing_bytes = 0;     // on each device, besides, while the node computes
};

struct StepWay {
  std::string name;  // "2x4": also of several ways on as many devices
  std::uint32_t devices = 1;
  std::vector<StepCost> nodes;  // by node
};

struct StepNode {
  std::string name;
  double crossing_seconds = 0;  // to send a microbatch to a stage that begins behind it; its gradient takes as long
};

enum class StepObjective : std::uint8_t { alpa, dapple };

// Nodes are a line: each hands something on to the next one. Stages have all devices, one stage behind the other, and
// those of one stage are whole groups, or within one group, of each size in `groups`. For stages that take F seconds for a
// forward, B for a backward and R once a step, of M microbatches:
//
//   alpa     Σ t + (M - 1) max t (eq. 2) for t = F + B + R / M. Nothing is paid for what crosses between stages.
//   dapple   Between two stages stands another one, which takes crossing_seconds for each direction and no R. Of the
//            pivot Q: Σ F up to Q, (M - 1) (F + B) of Q, and the largest of R of a stage with Σ B from it up to Q, or,
//            behind Q, without Σ B from Q up to it. Q is first the last stage; from there to the first one each s becomes
//            Q for which (M - 1) (F + B) is more than that of Q with Σ (F + B) of what lies between the two (§4.1).
//
// On each device a stage needs Σ resident + y Σ saved + the largest passing bytes, y being the stages from it on, but at
// most M (eq. 5; 1F1B has no more in flight).
struct StepProblem {
  StepObjective objective = StepObjective::alpa;
  std::vector<StepNode> nodes;
  std::vector<StepWay> ways;
  std::vector<std::uint32_t> groups;  // devices of a server, and of whatever else is not to be torn
  std::uint32_t devices = 0;
  std::uint32_t microbatches = 0;  // M
  double device_bytes = 0;
};

// How a node can run on the devices of a stage, whatever its neighbours do.
struct MenuEntry {
  std::string name;  // "dp 2 x tp 4"
  std::vector<StepCost> nodes;  // by node
};

// What nodes choose from where there are so many stages.
struct Menu {
  std::uint32_t stages = 1;
  std::vector<MenuEntry> entries;
  // [(node * entries + from) * entries + to]: seconds of a microbatch to bring what crosses behind a node, and its gradient,
  // from what an entry of the node makes to what one of the next node takes, where both are in one stage.
  std::vector<double> change_seconds;

  [[nodiscard]] double change(std::size_t node, std::size_t from, std::size_t to) const { return change_seconds[(node * entries.size() + from) * entries.size() + to]; }
};

// Nodes are a line, and each stage has devices / stages of the devices. A stage takes t, the sum of its nodes' F + B + R / M,
// of the changes between them, and of the crossing_seconds of its last node, twice, where another stage follows; a step of M
// microbatches takes Σ t + (M - 1) max t. On each device a stage needs Σ resident + y Σ saved + the largest passing bytes, y
// being the stages from it on, but at most M.
struct MenuProblem {
  std::vector<StepNode> nodes;
  std::vector<Menu> menus;  // of unlike numbers of stages
  std::uint32_t devices = 0;
  std::uint32_t microbatches = 0;  // M
  double device_bytes = 0;
};

inline constexpr double kPivotTie = 1e-9;  // relative: two stages that take as long but for that are as long for DAPPLE's rule

// Whether `devices` from `first` on are a stage's, by a StepProblem's groups.
MESHWRIGHT_API bool are_together(std::span<const std::uint32_t> groups, std::uint32_t first, std::uint32_t devices);

using PlacementProblem = std::variant<LoadProblem, ReplicaProblem, LayerProblem, StepProblem, MenuProblem>;

// "max_load", "pipedream", "piper", "alpa", "dapple", "galvatron": also the id of the solver for it.
MESHWRIGHT_API std::string_view name(const PlacementProblem& problem);

inline constexpr std::uint32_t kMostPlacementDevices = 1U << 16;  // of any problem; more is a mistake
inline constexpr std::size_t kMostPlacementNodes = std::size_t{1} << 14;

// There are nodes, edges join two different ones of them, no number is negative or not finite, what divides is above
// 0, no edge is part of a cycle, and ways and menus have costs of each node. Error: bad_input with the node, the edge or the way.
MESHWRIGHT_API Status validate(const PlacementProblem& problem);

struct PlacementStage {
  std::vector<std::uint32_t> nodes;  // ascending
  bool host = false;                 // of a LoadProblem
  std::uint32_t replicas = 1;        // d
  std::uint32_t tensor = 1;          // t; of a LayerProblem, so that the stage has d * t devices
  std::vector<std::uint32_t> variants;  // for each of `nodes`, of a LayerProblem the place in its variants for t, of a MenuProblem in the menu's entries
  std::uint32_t way = 0;  // of a StepProblem: which of its ways, whose devices are d * t. Those of a MenuProblem are d * t too
};

struct PlacementCost {
  double objective = 0;         // the largest of `seconds`; of a StepProblem and a MenuProblem those of a step
  std::vector<double> seconds;  // of each stage, per sample; of these with its part of what comes once a step
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
