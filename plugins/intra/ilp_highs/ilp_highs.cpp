#include "ilp_highs.h"

#include <iterator>

#include "highs_engine.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

void* create(const Config& config, Error&) { return static_cast<IntraSolver*>(new IlpHighs(integer_options(config))); }

}  // namespace

Result<std::vector<Assignment>> IlpHighs::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                   const SearchLimits& limits) const {
  return solve_integer_program(ilp::Highs(), space, budgets, limits, options_);
}

MESHWRIGHT_PLUGIN("intra", "ilp_highs", "0.1.0", "Apache-2.0",
                  "MAP's integer program (equation 1, edges by marginal constraints), solved by HiGHS", nullptr,
                  kIntegerSchema, std::size(kIntegerSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
