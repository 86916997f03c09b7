#include "meshwright/timeline.h"

#include <gtest/gtest.h>

#include "test_ops.h"

namespace meshwright {
namespace {

using testing::count_up;
using testing::ProgramBuilder;

const testing::TestOps kOps;

double last_seconds(const ProgramBuilder& build) {
  return to_seconds(instruction_ticks(build.program, build.program.instructions.back(), kOps, build.profile).value());
}

TEST(Price, AProductByItsLocalFlops) {
  ProgramBuilder build = testing::slow_builder({2});
  const ProgramValueId a = build.input("a", count_up({8, 4}), "S0R"), b = build.input("b", count_up({4, 6}), "RR");
  build.compute("product", {a, b}, "S0R");
  build.program.values.back().type.type.shape = {8, 6};
  build.program.values.back().type.atoms = whole_dimensions({8, 6});
  const double bytes = 4 * (4 * 4 + 4 * 6 + 4 * 6);  // a product's bytes are not hidden behind its arithmetic
  EXPECT_NEAR(last_seconds(build), 2 * 4 * 4 * 6 / 0.001 + bytes, 1e-6);
}

TEST(Price, CausalWorkByItsSlowestRank) {
  ProgramBuilder build = testing::slow_builder({4});
  build.compute("causal", {build.input("a", count_up({8, 8}), "S0R")}, "S0R");
  EXPECT_DOUBLE_EQ(last_seconds(build), 1000 * 2 * 8 * 7.0 / 8);
  build.compute("causal", {build.input("b", count_up({8, 8}), "RR")}, "RR");
  EXPECT_DOUBLE_EQ(last_seconds(build), 1000 * 8 * 8 / 2.0);
}

TEST(Price, EverythingElseByItsBytes) {
  ProgramBuilder build = testing::slow_builder({2});
  const ProgramValueId a = build.input("a", count_up({8}), "S0"), table = build.input("t", count_up({64}), "R");
  for (const char* op : {"copy", "nobody", "unsupported"}) {
    build.compute(op, {a}, "S0");
    EXPECT_DOUBLE_EQ(last_seconds(build), 32) << op;
  }
  build.compute("look_up", {a, table}, "S0");
  EXPECT_DOUBLE_EQ(last_seconds(build), 48);
  build.compute("view", {a}, "S0");
  EXPECT_EQ(last_seconds(build), 0);
}

TEST(Price, MovesAndUpdates) {
  ProgramBuilder build = testing::slow_builder({4});
  const ProgramValueId weight = build.parameter("w", count_up({8}), "S0");
  build.move(MoveKind::all_gather, 0, weight, "R");
  EXPECT_DOUBLE_EQ(last_seconds(build), 3 * 8);
  build.update(0, build.input("g", count_up({8}), "S0"));
  EXPECT_DOUBLE_EQ(last_seconds(build), static_cast<double>(2 * build.program.training.step_bytes(DType::float32)));
  build.program.instructions.back().action = Convert{};
  EXPECT_FALSE(instruction_ticks(build.program, build.program.instructions.back(), kOps, build.profile).ok());
}

}  // namespace
}  // namespace meshwright
