#include "ilp_lp_solve.h"

#include "engine.h"
#include "engine_suite.h"

namespace meshwright {
namespace {

struct OfLpSolve {
  using Solver = IlpLpSolve;
  using Engine = ilp::LpSolve;
  static constexpr bool kCounts = false;  // its interface has no such limit
};
INSTANTIATE_TYPED_TEST_SUITE_P(IlpLpSolve, EngineSuite, OfLpSolve);

}  // namespace
}  // namespace meshwright
