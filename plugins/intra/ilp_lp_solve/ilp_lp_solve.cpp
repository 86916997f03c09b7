#include "ilp_lp_solve.h"

#include <iterator>

#include "engine.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

void* create(const Config& config, Error&) {
  return static_cast<IntraSolver*>(new IlpLpSolve(integer_options(config)));
}

}  // namespace

Result<std::vector<Assignment>> IlpLpSolve::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                     const SearchLimits& limits) const {
  return solve_integer_program(ilp::LpSolve(), space, budgets, limits, options_);
}

MESHWRIGHT_PLUGIN("intra", "ilp_lp_solve", "0.1.0", "Apache-2.0",
                  "MAP's integer program (equation 1, edges by marginal constraints), solved by lp_solve", nullptr,
                  kIntegerSchema, std::size(kIntegerSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
