// What [search] of the configuration means to a search on one mesh.
#pragma once

#include <limits>

#include "meshwright/config.h"
#include "meshwright/solver.h"
#include "meshwright/strategy.h"

namespace meshwright {

// What it asks of strategies. Errors: bad_input for axes that the mesh does not have.
Result<StrategyFilter> wanted_filter(const Config& search, const Mesh& mesh);

inline constexpr std::int64_t kAnyWork = std::numeric_limits<std::int64_t>::max();

// Those of `search`, with no more than so much work.
SearchLimits limits_of(const Config& search, std::int64_t most_work);

// The solver's answer to the problem, within the limits of `search`, and with no more than so much work. Its space is reduced before and the answer lifted
// afterwards, but for a solver that reads the model.
Result<Assignment> solve_problem(const IntraSolver& solver, const ModelProblem& model, std::int64_t budget, const Config& search,
                                 std::int64_t most_work = kAnyWork);

}  // namespace meshwright
