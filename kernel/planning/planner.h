// The fastest plans of a model on a cluster: every mesh is searched, and what fits is ranked.
//
//   for each mesh: strategies and prices → pins → reduction → solver → plan → its program's peak against the budget
//   then rounds of searches by the step itself, on the meshes that may still have a shorter one (step_search.h)
//
// Plans are ranked by the simulated step. Where several are asked for, they are those of the least objectives on each mesh, and the
// one with the shortest step that is known.
// Owns nothing between calls. Deterministic: the same request gives the same plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparisons.h"
#include "fitted_search.h"
#include "meshwright/checkpoint.h"
#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "meshwright/planning_context.h"
#include "pins.h"

namespace meshwright {

// All that it refers to outlives the call.
struct PlanRequest {
  PlanningContext context;
  const Cluster& cluster;
  const IntraSolver& solver;
  const Config& search;           // [search] of the configuration
  FittedSolver::Lower lower;      // a plan's program, whose peak counts
  const CheckpointSolver* checkpoint = nullptr;  // of [search] checkpoint; null: none
  const std::vector<Pin>& pins;
  std::string mesh;               // "2x4"; "": all that are worth trying
  std::int64_t budget_bytes = 0;  // of a program's peak, per device
  bool must_fit_device = false;   // A plan's whole account (memory_account.h) is held against the device's memory too.
  int top = 1;                    // so many of the best distinct plans (distinct_plans.h)
  // False where it only matters whether something fits: then the best plan is compared with no other one, a refusal gives no
  // reasons, and meshes have at most two axes.
  bool explain = true;
  bool usual = true;        // With `explain`, the best plan is set beside usual ones.
  bool name_budget = true;  // With `explain`, a refusal tries budgets until it can name one that has a plan.
};

struct MeshTrial {
  std::string mesh;
  SolveStatus status = SolveStatus::infeasible;
  double objective_seconds = 0;
  double lower_bound_seconds = 0;  // of the objective
  double free_lower_bound_seconds = 0;  // of the objective without a budget
  double step_seconds = 0;         // the shortest that is known
  double step_lower_bound_seconds = 0;  // no plan of this mesh has a shorter one; 0: nothing is proven
  std::int64_t peak_bytes = 0;
  // If infeasible:
  std::string binding;
  std::int64_t least_bytes = 0;     // no plan holds less, as far as it is proven
  std::int64_t smallest_bytes = 0;  // what the smallest plan that is known holds; 0 if none is
};

// A plan of one mesh, and the size of its problem.
struct RankedPlan {
  FittedPlan fitted;
  std::size_t variables = 0, strategies = 0;
};

struct PlanRanking {
  std::vector<RankedPlan> plans;  // by simulated step; empty if no mesh has a plan that fits. The first has its runner-up
  bool may_have_more = false;     // fewer than asked for, since looking for more was given up
  std::vector<MeshTrial> trials;
  std::vector<Comparison> comparisons;  // with the first plan, on its mesh
  // If nothing fits: the plan of the smallest budget for which one is known, and that budget. Where it is 0, the plan that holds least of those
  // that were seen, which may not be found again.
  std::optional<FittedPlan> smallest;
  std::int64_t smallest_budget_bytes = 0;
  // Seconds of wall time.
  double strategies_seconds = 0, search_seconds = 0, comparisons_seconds = 0, runner_up_seconds = 0;
};

// Errors: bad_input (the mesh, a pin, a setting of [search]), plugin_failed. That nothing fits is none.
Result<PlanRanking> rank_plans(const PlanRequest& request);

}  // namespace meshwright
