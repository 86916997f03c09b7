#include "ilp_highs.h"

#include "highs_engine.h"
#include "engine_suite.h"

namespace meshwright {
namespace {

struct OfHighs {
  using Solver = IlpHighs;
  using Engine = ilp::Highs;
  static constexpr bool kCounts = true;
};
INSTANTIATE_TYPED_TEST_SUITE_P(IlpHighs, EngineSuite, OfHighs);

}  // namespace
}  // namespace meshwright
