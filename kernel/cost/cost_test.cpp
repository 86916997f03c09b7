#include "meshwright/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "meshwright/call_price.h"
#include "meshwright/rule.h"

namespace meshwright {
namespace {

const MeshAxis kAxis{4, 5e-6, 1 / 20e9, "link"};

TEST(CollectiveSeconds, FollowsTheRingAtLargeSizes) {
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::all_reduce, kAxis, 1e9), 2 * 3 * 5e-6 + 2 * 0.75 * 1e9 / 20e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::all_gather, kAxis, 1e9), 3 * 5e-6 + 3 * 1e9 / 20e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::reduce_scatter, kAxis, 1e9), 3 * 5e-6 + 0.75 * 1e9 / 20e9);
}

TEST(CollectiveSeconds, IsMonotoneAndReduceScatterIsNeverDearerThanAllReduce) {
  for (const std::int64_t size : {2, 3, 8, 64}) {
    const MeshAxis axis{size, 5e-6, 1 / 20e9, "link"};
    for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce,
                            CollectiveKind::all_to_all, CollectiveKind::permute}) {
      double last = 0;
      for (double bytes = 1; bytes < 1e10; bytes *= 3) {
        const double seconds = collective_seconds(kind, axis, bytes);
        EXPECT_GE(seconds, last) << name(kind) << " over " << size << " at " << bytes;
        last = seconds;
        EXPECT_LE(collective_seconds(CollectiveKind::reduce_scatter, axis, bytes),
                  collective_seconds(CollectiveKind::all_reduce, axis, bytes));
      }
    }
  }
}

TEST(ComputeSeconds, IsTheSlowerOfArithmeticAndMemoryPlusALaunch) {
  CostProfile profile;
  profile.device.memory_bytes_per_second = 1e12;
  profile.device.vector_flops_per_second = 1e13;
  profile.device.matrix_flops_per_second[DType::bfloat16] = 1e14;
  profile.device.launch_seconds = 1e-6;
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.matrix_flops = 1e12, .dtype = DType::bfloat16}), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.matrix_flops = 1e12, .dtype = DType::float32}), 1e-1 + 1e-6);
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.vector_flops = 1, .bytes = 1e9}), 1e-3 + 1e-6);
  EXPECT_EQ(compute_seconds(profile, {}), 0);
}

TEST(ToTicks, WhatCannotBeCountedCostsAsMuchAsCan) {
  EXPECT_EQ(to_ticks(1e300), kForbidden - 1);
  EXPECT_EQ(to_ticks(HUGE_VAL), kForbidden - 1);
  EXPECT_EQ(to_ticks(std::nan("")), kForbidden - 1);
  EXPECT_EQ(to_ticks(-1), 0);
}

CostProfile plain_profile() {
  CostProfile profile;
  profile.device.memory_bytes_per_second = 1e12;
  profile.device.vector_flops_per_second = 1e13;
  profile.device.matrix_flops_per_second[DType::bfloat16] = 1e14;
  return profile;
}

TEST(ComputeSeconds, AProductTakesWholeWavesOfTilesAndItsBytesBeside) {
  CostProfile profile = plain_profile();
  Work work{1e14, 0, 1e12, DType::bfloat16};
  work.product = {1, 640, 256, 64};  // five tiles of 128 x 256; turned, six
  EXPECT_DOUBLE_EQ(compute_seconds(profile, work), 1 + 1);
  profile.device.multiprocessors = 4;  // two waves of four: 8/5 as they lie, 8/6 turned
  EXPECT_NEAR(compute_seconds(profile, work), 8.0 / 6 + 1, 1e-12);
  work.product.batches = 2;  // ten tiles in three waves; turned, twelve in three
  EXPECT_NEAR(compute_seconds(profile, work), 1 + 1, 1e-12);
}

// Roles by factor's name, of the factors that do the work; "": there are none.
std::string roles(const char* text, const std::vector<TensorType>& operands, const std::vector<TensorType>& results) {
  const Result<Rule> rule = parse_rule(text, operands, results);
  EXPECT_TRUE(rule) << text;
  OpCost cost;
  cost.matrix = true;
  WorkTerm& term = cost.forward.emplace_back();
  for (FactorId factor = 0; factor < rule->factors.size(); ++factor) {
    if (rule->factors[factor].name[0] != 'x') term.factors.push_back(factor);
  }
  std::string said;
  const std::vector<ProductRole> all = product_roles(*rule, cost);
  for (FactorId factor = 0; factor < all.size(); ++factor) said += rule->factors[factor].name + "?brcs"[static_cast<std::size_t>(all[factor])] + " ";
  return said;
}

TEST(ProductRoles, AreThoseOfProductsOfMatricesAlone) {
  const auto floats = [](std::vector<std::int64_t> shape) { return TensorType{DType::float32, std::move(shape)}; };
  EXPECT_EQ(roles("b m k, b k n -> b m n", {floats({2, 3, 4}), floats({2, 4, 5})}, {floats({2, 3, 5})}), "bb mr ks nc ");
  // Work whose factors nobody states is no product of one row and one column.
  EXPECT_EQ(roles("x1 x2, x2 x3 -> x1 x3", {floats({2, 3}), floats({3, 4})}, {floats({2, 4})}), "");
  // A convolution and its gradients: positions that one side sums alone meet those of another.
  const TensorType input = floats({2, 3, 9}), weight = floats({4, 3, 3}), output = floats({2, 4, 7});
  EXPECT_EQ(roles("n i !x, o i !k -> n o !y", {input, weight}, {output}), "");
  EXPECT_EQ(roles("n o !y, o i !k -> n i !x", {output, weight}, {input}), "");
  EXPECT_EQ(roles("n o !y, n i !x -> o i !k", {output, input}, {weight}), "");
}

TEST(ComputeSeconds, FusedAttentionRunsAtTheRatesOfItsKernel) {
  CostProfile profile = plain_profile();
  profile.device.attention["flash_2"] = {0.8, 100, 100, 0.5};
  Work work{3e13, 0, 1, DType::bfloat16};
  work.keys = 300;
  work.head = 100;
  EXPECT_NEAR(compute_seconds(profile, work), 1, 1e-12);
  work.is_backward = true;
  EXPECT_NEAR(compute_seconds(profile, work), 2, 1e-12);
  profile.attention = "none";
  EXPECT_NEAR(compute_seconds(profile, work), 0.3, 1e-9);
}

TEST(CollectiveSeconds, FollowsWhatWasMeasured) {
  MeshAxis axis{8, 1e-6, 1 / 300e9, "link"};
  axis.ring = {{1e6, 1 / 20e9}, {64e6, 1 / 160e9}, {1e9, 1 / 230e9}};
  EXPECT_NEAR(collective_seconds(CollectiveKind::all_reduce, axis, 64e6), 2 * 7.0 / 8 * 64e6 / 160e9, 1e-9);
  EXPECT_NEAR(collective_seconds(CollectiveKind::all_gather, axis, 64e6 / 8), 7.0 / 8 * 64e6 / 160e9, 1e-9);
  for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
    double last = 0;
    for (double bytes = 1; bytes < 1e11; bytes *= 1.7) {
      const double seconds = collective_seconds(kind, axis, bytes);
      EXPECT_GE(seconds, last) << name(kind) << " at " << bytes;
      EXPECT_LE(collective_seconds(CollectiveKind::reduce_scatter, axis, bytes), collective_seconds(CollectiveKind::all_reduce, axis, bytes));
      last = seconds;
    }
  }
}

TEST(ComputeSeconds, FollowsCurvesThatWereMeasured) {
  CostProfile profile = plain_profile();
  profile.device.product_curves[DType::float32] = {{1e6, 1e9}, {1e9, 1e11}};
  profile.device.memory_curve = {{1e3, 1e6}, {1e8, 1e10}};
  const auto product = [&](double flops) { return compute_seconds(profile, {.matrix_flops = flops, .bytes = 1e12, .dtype = DType::float32}) - profile.device.launch_seconds; };
  EXPECT_NEAR(product(1e6), 1e-3, 1e-12);
  EXPECT_NEAR(product(1e3), 1e-6, 1e-12);
  EXPECT_NEAR(product(1e11), 1, 1e-9);
  const auto copy = [&](double bytes) { return compute_seconds(profile, {.bytes = bytes}) - profile.device.launch_seconds; };
  EXPECT_NEAR(copy(1e8), 1e-2, 1e-9);
  for (double size = 1, last_product = 0, last_copy = 0; size < 1e13; size *= 1.7) {
    EXPECT_GE(product(size), last_product) << size;
    EXPECT_GE(copy(size), last_copy) << size;
    last_product = product(size);
    last_copy = copy(size);
  }
}

TEST(CollectiveSeconds, FollowsTheCurveOfTheCollectiveItself) {
  MeshAxis axis{4, 1e-6, 1 / 1e9, "link"};
  axis.ring = {{1e6, 1 / 2e9}};
  axis.own[CollectiveKind::all_to_all] = {{1e6, 1 / 4e9}};
  axis.own[CollectiveKind::permute] = {{1e6, 1 / 8e9}};
  axis.own[CollectiveKind::all_gather] = {{1e6, 1 / 5e9}};
  EXPECT_NEAR(collective_seconds(CollectiveKind::all_to_all, axis, 1e6), 0.75e6 / 4e9, 1e-12);
  EXPECT_NEAR(collective_seconds(CollectiveKind::permute, axis, 1e6), 1e6 / 8e9, 1e-12);
  EXPECT_NEAR(collective_seconds(CollectiveKind::all_gather, axis, 1e6), 3e6 / 5e9, 1e-12);
  EXPECT_NEAR(collective_seconds(CollectiveKind::reduce_scatter, axis, 1e6), 0.75e6 / 2e9, 1e-12);
}

TEST(CollectiveSeconds, ABucketCostsWhatItsSharesDo) {
  MeshAxis axis{8, 1e-6, 1 / 300e9, "link"};
  axis.skew_seconds = 1e-4;
  const double whole = collective_seconds(CollectiveKind::reduce_scatter, axis, 24e6);
  EXPECT_NEAR(3 * collective_seconds(CollectiveKind::reduce_scatter, axis, 8e6, 1.0 / 3), whole, 1e-12);
}

// Says that more work is sooner done, or gives the device as it is.
class Falling final : public Profiler {
 public:
  explicit Falling(double last_rate) : last_rate_(last_rate) {}

 private:
  Result<CostProfile> do_profile(const Cluster& cluster) const override {
    CostProfile profile{cluster.device};
    profile.device.memory_curve = {{1e3, 1e6}, {1e9, last_rate_}};
    return profile;
  }

  double last_rate_;
};

TEST(Profilers, GiveADeviceThatAClusterMayHave) {
  Cluster cluster;
  cluster.devices_per_node = 1;
  cluster.device.memory_bytes = 1;
  cluster.device.memory_bytes_per_second = cluster.device.vector_flops_per_second = 1e9;
  cluster.device.matrix_flops_per_second[DType::float32] = 1e9;
  ASSERT_TRUE(validate(cluster));
  EXPECT_TRUE(Falling(1e12).profile(cluster));
  EXPECT_TRUE(Falling(1e12).recall(cluster));
  for (const Result<CostProfile>& profile : {Falling(2e12).profile(cluster), Falling(2e12).recall(cluster)}) {
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().code, ErrorCode::plugin_failed);
    EXPECT_NE(profile.error().message.find("sooner done"), std::string::npos) << profile.error().message;
  }
}

// What is left of communication behind computing, and what both take longer beside each other.
TEST(Exposed, IsWhatCommunicationAddsToComputing) {
  DeviceSpec device;
  EXPECT_DOUBLE_EQ(exposed_seconds(device, 3, 5), 0);
  EXPECT_DOUBLE_EQ(exposed_seconds(device, 5, 3), 2);
  device.computing_stretch = device.communication_stretch = 2;  // beside each other each has half: nothing is hidden
  EXPECT_DOUBLE_EQ(exposed_seconds(device, 3, 5), 3);
  EXPECT_DOUBLE_EQ(exposed_seconds(device, 5, 3), 5);
  device.communication_stretch = 1;  // 3 s of communication, in which 5 s of computing do 1.5
  EXPECT_DOUBLE_EQ(exposed_seconds(device, 3, 5), 1.5);
}

TEST(GatherLatency, IsShared) {
  Mesh mesh;
  mesh.axes.resize(2);
  mesh.axes[0].size = 4;
  mesh.axes[1].size = 2;
  EXPECT_DOUBLE_EQ(gather_latency_seconds(mesh, 0b01, 5), 0);  // nothing was measured
  mesh.axes[0].own[CollectiveKind::all_gather] = {{4, 1e-3}, {1e6, 1e-8}};
  EXPECT_DOUBLE_EQ(gather_latency_seconds(mesh, 0b01, 1), collective_seconds(CollectiveKind::all_gather, mesh.axes[0], 1));
  EXPECT_GT(gather_latency_seconds(mesh, 0b01, 1), 1e-3);
  EXPECT_DOUBLE_EQ(gather_latency_seconds(mesh, 0b01, 4), gather_latency_seconds(mesh, 0b01, 1) / 4);
  EXPECT_DOUBLE_EQ(gather_latency_seconds(mesh, 0, 1), 0);
}

}  // namespace
}  // namespace meshwright
