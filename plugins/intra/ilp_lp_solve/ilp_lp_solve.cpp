#include "ilp_lp_solve.h"

#include <iterator>

#include "engine.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

constexpr const char* kMaxColumns = "max_columns";

constexpr meshwright_config_key_v1 kSchema[] = {
    {kMaxColumns, "integer", "columns", "500_000",
     "the largest program that is given to lp_solve; beyond it the answer is a local search's, with a bound"},
};

void* create(const Config& config, Error&) {
  return static_cast<IntraSolver*>(new IlpLpSolve(config.integer(kMaxColumns)));
}

}  // namespace

Result<std::vector<Assignment>> IlpLpSolve::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                     const SearchLimits& limits) const {
  return solve_integer_program(ilp::LpSolve(), space, budgets, limits, max_columns_);
}

MESHWRIGHT_PLUGIN("intra", "ilp_lp_solve", "0.1.0", "Apache-2.0",
                  "MAP's integer program (equation 1, edges by marginal constraints), solved by lp_solve", nullptr,
                  kSchema, std::size(kSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
