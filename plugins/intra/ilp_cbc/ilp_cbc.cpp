#include "ilp_cbc.h"

#include <iterator>

#include "engine.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

void* create(const Config& config, Error&) { return static_cast<IntraSolver*>(new IlpCbc(integer_options(config))); }

}  // namespace

Result<std::vector<Assignment>> IlpCbc::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                 const SearchLimits& limits) const {
  return solve_integer_program(ilp::Cbc(), space, budgets, limits, options_);
}

MESHWRIGHT_PLUGIN("intra", "ilp_cbc", "0.1.0", "Apache-2.0",
                  "MAP's integer program (equation 1, edges by marginal constraints), solved by CBC", nullptr,
                  kIntegerSchema, std::size(kIntegerSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
