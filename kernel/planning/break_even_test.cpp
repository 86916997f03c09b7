#include "break_even.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "meshwright/timeline.h"

namespace meshwright {
namespace {

class NoOps final : public OpTable {
 public:
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return nullptr; }
};
const NoOps kNoOps;

// Two by two devices without latencies: pairs at 4 GB/s, behind links of 1 GB/s that each device has for itself.
Cluster two_levels() {
  Cluster cluster;
  cluster.name = "two levels";
  cluster.devices_per_node = 4;
  cluster.device.memory_bytes_per_second = cluster.device.vector_flops_per_second = 1e9;
  cluster.levels = {{"pair", 2, 4e9, 0, 1, false}, {"all", 4, 1e9, 0, 1, false}};
  return cluster;
}

// Reductions of so many float32, over mesh axis 1 (pairs) or 0, one after the other.
Program reductions(const Cluster& cluster, const std::vector<std::pair<std::uint8_t, std::int64_t>>& moves) {
  Program program;
  program.mesh = make_mesh(cluster, {2, 2}).value();
  for (const auto& [axis, elements] : moves) {
    const AtomShape atoms = whole_dimensions({elements});
    Layout partial(2);
    partial.place(axis, Placement::partial_sum());
    const auto from = static_cast<ProgramValueId>(program.values.size());
    program.values.push_back({"a", {{DType::float32, {elements}}, atoms, partial}});
    program.values.push_back({"b", {{DType::float32, {elements}}, atoms, Layout(2)}});
    Instruction& reduce = program.instructions.emplace_back();
    Move move;
    move.kind = MoveKind::all_reduce;
    move.axis = axis;
    move.result = Layout(2);
    reduce.action = MoveStep{move};
    reduce.operands.push_back({"", from, partial});
    reduce.results = {from + 1};
  }
  return program;
}

CostProfile profile_of(const Cluster& cluster) {
  CostProfile profile;
  profile.device = cluster.device;
  return profile;
}

std::vector<BreakEven> found(const Cluster& cluster, const Program& plan, const Program& runner_up) {
  return break_evens(cluster, profile_of(cluster), kNoOps, plan, runner_up).value();
}

const BreakEven& of(const std::vector<BreakEven>& all, CostCoefficient coefficient, const std::string& level = "") {
  const auto at = std::find_if(all.begin(), all.end(), [&](const BreakEven& one) { return one.coefficient == coefficient && one.level == level; });
  return *at;
}

double step(const Cluster& cluster, Program program) {
  program.mesh = make_mesh(cluster, {2, 2}).value();
  return make_timeline(program, kNoOps, profile_of(cluster))->step_seconds;
}

// A reduction among two takes its bytes over the bandwidth: 4 MB at 4 GB/s are 1 ms, 1.5 MB at 1 GB/s are 1.5 ms.
TEST(BreakEvens, AreWhereTheStepsMeet) {
  const Cluster cluster = two_levels();
  const Program plan = reductions(cluster, {{1, 1'000'000}}), other = reductions(cluster, {{0, 375'000}});
  const std::vector<BreakEven> all = found(cluster, plan, other);
  const BreakEven &pair = of(all, CostCoefficient::link_bandwidth, "pair"), &whole = of(all, CostCoefficient::link_bandwidth, "all");
  ASSERT_TRUE(pair.factor && whole.factor);
  EXPECT_NEAR(*pair.factor, 2.0 / 3, 0.01);
  EXPECT_NEAR(*whole.factor, 1.5, 0.01);
  EXPECT_LT(*pair.factor, 2.0 / 3);  // where the other is the faster one, and not where both are equal
  EXPECT_GT(*whole.factor, 1.5);
  EXPECT_NEAR(pair.part_seconds, 1e-3, 1e-6);
  EXPECT_EQ(pair.runner_up_part_seconds, 0);
  EXPECT_NEAR(whole.runner_up_part_seconds, 1.5e-3, 1e-6);
}

TEST(BreakEvens, TurnTheOrderThereAndNotBefore) {
  const Cluster cluster = two_levels();
  const Program plan = reductions(cluster, {{1, 1'000'000}, {0, 10'000}}), other = reductions(cluster, {{1, 300'000}, {0, 200'000}});
  ASSERT_LT(step(cluster, plan), step(cluster, other));
  const std::vector<BreakEven> all = found(cluster, plan, other);
  for (std::size_t level = 0; level < 2; ++level) {
    const BreakEven& one = of(all, CostCoefficient::link_bandwidth, cluster.levels[level].name);
    ASSERT_TRUE(one.factor) << one.level;
    Cluster there = cluster, before = cluster;
    there.levels[level].bytes_per_second *= *one.factor;
    before.levels[level].bytes_per_second *= std::pow(*one.factor, 0.98);
    EXPECT_LT(step(there, other), step(there, plan)) << one.level;
    EXPECT_GT(step(before, other), step(before, plan)) << one.level;
  }
}

// Where both send the same over one level, no bandwidth of that level tells them apart.
TEST(BreakEvens, ThereIsNoneWhereBothHaveTheSamePart) {
  const Cluster cluster = two_levels();
  const Program plan = reductions(cluster, {{1, 1'000'000}}), other = reductions(cluster, {{1, 1'000'000}, {0, 1'000}});
  for (const BreakEven& one : found(cluster, plan, other)) {
    EXPECT_FALSE(one.factor) << static_cast<int>(one.coefficient) << one.level;
    EXPECT_TRUE(one.level != "pair" || one.part_seconds == one.runner_up_part_seconds);
  }
}

TEST(BreakEvens, LieWithinTheRange) {
  const Cluster cluster = two_levels();
  const auto with = [&](std::int64_t elements) {
    return of(found(cluster, reductions(cluster, {{1, 1'000'000}}), reductions(cluster, {{0, elements}})), CostCoefficient::link_bandwidth, "pair").factor;
  };
  const std::optional<double> last = with(1'990'000);  // 7.96 ms
  ASSERT_TRUE(last);
  EXPECT_NEAR(*last, 1 / 7.96, 2e-3);
  EXPECT_GE(*last, kLeastFactor);
  EXPECT_FALSE(with(2'010'000));  // 8.04 ms
}

TEST(BreakEvens, AreOneWhereTheRunnerUpIsNoSlower) {
  const Cluster cluster = two_levels();
  const Program plan = reductions(cluster, {{0, 1'000}});
  for (const BreakEven& one : found(cluster, plan, plan)) EXPECT_EQ(one.factor, 1.0);
}

TEST(BreakEvens, AreTheSameEachTime) {
  const Cluster cluster = two_levels();
  const Program plan = reductions(cluster, {{1, 1'000'000}}), other = reductions(cluster, {{0, 300'001}});
  EXPECT_EQ(found(cluster, plan, other), found(cluster, plan, other));
}

TEST(Coefficients, AreThoseThatAreMoreThanZero) {
  Cluster cluster = two_levels();
  const auto kinds = [&] {
    std::vector<CostCoefficient> all;
    for (const ScaledCoefficient& one : coefficients_of(cluster, profile_of(cluster))) all.push_back(one.coefficient);
    return all;
  };
  using enum CostCoefficient;
  EXPECT_EQ(kinds(), (std::vector{link_bandwidth, link_bandwidth, product_rate, memory_bandwidth}));
  cluster.levels[1].latency_seconds = 1e-6;
  cluster.device.host_collective_seconds = 1e-6;
  cluster.device.attention["flash_2"] = {0.5, 1, 1, 1};
  EXPECT_EQ(kinds(), (std::vector{link_bandwidth, link_bandwidth, link_latency, product_rate, attention_rate, memory_bandwidth, host_time}));
}

TEST(Coefficients, ScaleNoEfficiencyAboveOne) {
  Cluster cluster = two_levels();
  cluster.device.matrix_efficiency = 0.5;
  cluster.device.memory_efficiency = 0.8;
  for (const ScaledCoefficient& one : coefficients_of(cluster, profile_of(cluster))) {
    const double most = one.coefficient == CostCoefficient::product_rate ? 2 : one.coefficient == CostCoefficient::memory_bandwidth ? 1.25 : kMostFactor;
    EXPECT_DOUBLE_EQ(one.most, most);
  }
}

TEST(Coefficients, ScaleWhatTheyPriceAndNothingElse) {
  Cluster cluster = two_levels();
  cluster.levels[0].measured = {{2, {}, {1e3, 1e6}, {1e8, 1e9}}};
  const Cluster faster = scaled(cluster, {CostCoefficient::link_bandwidth, 0}, 2);
  EXPECT_EQ(faster.levels[0].bytes_per_second, 8e9);
  EXPECT_EQ(faster.levels[0].measured[0].bytes_per_second, (std::vector<double>{2e8, 2e9}));
  EXPECT_EQ(faster.levels[1].bytes_per_second, 1e9);
  CostProfile profile = profile_of(cluster);
  profile.device.matrix_flops_per_second[DType::float32] = 1e12;
  profile.device.host_launch_seconds = 1e-6;
  const Work product{.matrix_flops = 1e9, .bytes = 1e6}, copy{.bytes = 1e6};
  const CostProfile quicker = scaled(profile, {CostCoefficient::product_rate}, 0.5), wider = scaled(profile, {CostCoefficient::memory_bandwidth}, 0.5);
  EXPECT_NEAR(compute_seconds(quicker, product) - compute_seconds(profile, product), 1e-3, 1e-12);
  EXPECT_EQ(compute_seconds(quicker, copy), compute_seconds(profile, copy));
  EXPECT_NEAR(compute_seconds(wider, copy), 2 * compute_seconds(profile, copy), 1e-12);
  EXPECT_EQ(scaled(profile, {CostCoefficient::host_time}, 3).device.host_launch_seconds, 3e-6);
}

}  // namespace
}  // namespace meshwright
