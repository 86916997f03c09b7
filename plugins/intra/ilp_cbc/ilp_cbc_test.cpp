#include "ilp_cbc.h"

#include "engine.h"
#include "engine_suite.h"

namespace meshwright {
namespace {

struct OfCbc {
  using Solver = IlpCbc;
  using Engine = ilp::Cbc;
  static constexpr bool kCounts = true;
};
INSTANTIATE_TYPED_TEST_SUITE_P(IlpCbc, EngineSuite, OfCbc);

}  // namespace
}  // namespace meshwright
