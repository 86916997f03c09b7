// What [search] of the configuration means to a search on one mesh.
#pragma once

#include <limits>

#include "meshwright/config.h"
#include "meshwright/solver.h"
#include "meshwright/strategy.h"

namespace meshwright {

// What it asks of strategies. Errors: bad_input for axes that the mesh does not have.
Result<StrategyFilter> wanted_filter(const Config& search, const Mesh& mesh);

// The same search, in which the first axis of the mesh only ever shards the batch too.
Config with_batch_first(Config search);

inline constexpr std::int64_t kAnyWork = std::numeric_limits<std::int64_t>::max();

// How far one search goes: so much work at most, and no further than an answer so near its bound (SearchLimits).
struct Effort {
  Effort(std::int64_t most, double good_enough = 0) : most_work(most), gap(good_enough) {}

  std::int64_t most_work;
  double gap;
};

// Those of `search`, with no more than that effort.
SearchLimits limits_of(const Config& search, Effort effort);

// The solver's answer to the problem, within the limits of `search`, and with no more than that effort. Its space is reduced before and the answer lifted
// afterwards, but for a solver that reads the model.
Result<Assignment> solve_problem(const IntraSolver& solver, const ModelProblem& model, std::int64_t budget, const Config& search,
                                 Effort effort = kAnyWork);

}  // namespace meshwright
