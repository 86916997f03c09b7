// What usual ways to split a model would take under the same cost model, without a budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "meshwright/planning_context.h"

namespace meshwright {

struct Comparison {
  std::string name;                         // "data parallel", "Megatron 2x4"
  std::optional<double> objective_seconds;  // nothing if the model can't be split that way
  double step_seconds = 0;                  // simulated
  std::int64_t peak_bytes = 0;
  std::string note;                         // why not, or how
  std::optional<Plan> plan;
};

// Data parallelism alone and Megatron's plan on a mesh, each with a note where it exceeds the budget; none on a mesh of one device.
// Errors: those of building, solving and lowering.
Result<std::vector<Comparison>> usual_plans(const FittedSolver& solver, const PlanningContext& context, const Mesh& mesh, std::int64_t budget);

}  // namespace meshwright
