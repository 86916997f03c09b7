// From a model file to a plan: composes the plugins that the configuration names.
//
//   frontend → atoms → for each mesh shape: strategies → reduction → solver → plan → the fastest that fits
//
// Where several plans are asked for, the least objectives are found first, and then ranked by the simulated step.
// Owns nothing between calls. Deterministic: the same files and options give the same plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwright/plan.h"
#include "meshwright/result.h"
#include "plan_options.h"
#include "plugin_host.h"

namespace meshwright::host {

// What another way to split the same model would take under the same cost model, without a budget.
struct Comparison {
  std::string name;                       // "data parallel", "Megatron 2x4"
  std::optional<double> objective_seconds;  // nothing if the model can't be split that way
  std::int64_t peak_bytes = 0;
  std::string note;                       // why not, or how
};

struct MeshTrial {
  std::string mesh;
  SolveStatus status = SolveStatus::infeasible;
  double objective_seconds = 0;
  double lower_bound_seconds = 0;
  std::int64_t peak_bytes = 0;
  // If infeasible:
  std::string binding;
  std::int64_t least_bytes = 0;     // no plan holds less, as far as it is proven
  std::int64_t smallest_bytes = 0;  // the smallest budget for which a plan is known; 0 if none is
};

// Seconds of wall time. They go to the terminal, never into the plan file.
struct PhaseSeconds {
  double plugins = 0;     // loading them and making their objects; finding their files comes before
  double frontend = 0;    // reading the model
  double strategies = 0;  // atoms, strategies and prices
  double search = 0;      // reduction and solver
  double comparisons = 0;
  double total = 0;
};

// A single change of what the user gave that may make a plan fit.
struct Suggestion {
  std::string change;  // "train.microbatches=4", "2 times the nodes"
  PlanOptions options;
};

struct PlanOutcome {
  std::optional<Plan> plan;  // nothing if no mesh has a plan that fits
  std::vector<Plan> next;    // the other ones of PlanOptions::top, by simulated step; `plan` is the first of them all
  bool may_have_more = false;  // fewer than asked for, since looking for more was given up
  std::vector<MeshTrial> trials;
  std::vector<Comparison> comparisons;
  PhaseSeconds phases;
  std::size_t variables = 0;   // of the chosen mesh's problem
  std::size_t strategies = 0;
  std::string refusal;  // why there is no plan
  std::vector<Suggestion> changes;  // that might help then
};

// Errors: bad_input (a file, an option), plugin_failed. That nothing fits is no error but an outcome without a plan.
Result<PlanOutcome> run_pipeline(const PlanOptions& options, PluginHost& host);

}  // namespace meshwright::host
