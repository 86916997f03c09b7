#include "meshwright/memory_account.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace meshwright {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// The figures of PyTorch's allocator.
MemoryOverheads pytorch() {
  return {.block_bytes = 512, .small_segment_bytes = 2 * kMiB, .medium_segment_bytes = 20 * kMiB};
}

Cluster pair_of_devices() {
  Cluster cluster;
  cluster.name = "pair";
  cluster.device = {"toy", 80 * kGiB, 1e12, {{DType::float32, 1e12}}, 1e11, 1e-6, 0.5, 0.75, 1e9};
  cluster.device.overheads = pytorch();
  cluster.device.overheads.driver_bytes = kGiB;
  cluster.device.overheads.context_bytes = 512 * kMiB;
  cluster.device.overheads.workspace_bytes = 96 * kMiB;
  cluster.device.overheads.communicator_bytes = 700 * kMiB;
  cluster.device.overheads.fragmentation = 0.05;
  cluster.reserved_bytes = 256 * kMiB;
  cluster.devices_per_node = 2;
  cluster.levels = {{"link", 2, 1e9, 1e-6, 1, true}};
  return cluster;
}

TEST(RoundingBytes, SmallTensorsShareSmallSegments) {
  EXPECT_EQ(rounding_bytes(pytorch(), {}), 0);
  EXPECT_EQ(rounding_bytes(pytorch(), {1}), 2 * kMiB - 1);
  EXPECT_EQ(rounding_bytes(pytorch(), {kMiB, kMiB}), 0);                    // a segment is full
  EXPECT_EQ(rounding_bytes(pytorch(), {kMiB, kMiB, 512}), 2 * kMiB - 512);  // and one more is begun
  // Two blocks of 512 for 513 bytes: a full segment of tensors that leave 511 bytes of their blocks idle each.
  EXPECT_EQ(rounding_bytes(pytorch(), std::vector<std::int64_t>(2 * kKiB, 513)), 2 * kKiB * 511);
}

TEST(RoundingBytes, MediumTensorsShareMediumSegments) {
  EXPECT_EQ(rounding_bytes(pytorch(), {5 * kMiB}), 15 * kMiB);
  EXPECT_EQ(rounding_bytes(pytorch(), {5 * kMiB, 5 * kMiB, 5 * kMiB, 5 * kMiB}), 0);
  EXPECT_EQ(rounding_bytes(pytorch(), {kMiB + 512}), 19 * kMiB - 512);  // one block more than is small
}

TEST(RoundingBytes, LargeTensorsHaveTheirOwn) {
  EXPECT_EQ(rounding_bytes(pytorch(), {10 * kMiB}), 0);
  EXPECT_EQ(rounding_bytes(pytorch(), {11 * kMiB, 11 * kMiB}), 2 * kMiB);
}

TEST(RoundingBytes, OfADeviceWithoutSuchAnAllocatorAreNone) {
  EXPECT_EQ(rounding_bytes({}, {1, 513, kMiB + 1, 11 * kMiB}), 0);
  EXPECT_EQ(rounding_bytes({.block_bytes = 64}, {1, 64, 65}), 63 + 63);
}

TEST(MemoryAccount, NamesAllThatTheDeviceHolds) {
  const MemoryAccount account = memory_account(pair_of_devices(), {20 * kGiB, 10 * kGiB + 1}, 3);
  EXPECT_EQ(account.program_bytes, 30 * kGiB + 1);
  EXPECT_EQ(account.rounding_bytes, 2 * kMiB - 1);
  EXPECT_EQ(account.fragmentation_bytes, (30 * kGiB + 2 * kMiB) / 20);
  EXPECT_EQ(account.driver_bytes, kGiB);
  EXPECT_EQ(account.context_bytes, 512 * kMiB);
  EXPECT_EQ(account.workspace_bytes, 96 * kMiB);
  EXPECT_EQ(account.communicators, 3);
  EXPECT_EQ(account.communicator_bytes, 2100 * kMiB);
  EXPECT_EQ(account.reserved_bytes, 256 * kMiB);
  EXPECT_EQ(account.total_bytes(),
            30 * kGiB + 2 * kMiB + (30 * kGiB + 2 * kMiB) / 20 + kGiB + (512 + 96 + 2100 + 256) * kMiB);
}

// Of programs without communication whose tensors fill their segments: the largest that fits, and none larger by a
// segment.
TEST(LargestPeakBytes, IsTheLargestThatFits) {
  for (const double fragmentation : {0.0, 0.05, 0.33}) {
    Cluster cluster = pair_of_devices();
    cluster.device.overheads.fragmentation = fragmentation;
    const std::int64_t most = largest_peak_bytes(cluster), full = most / (2 * kMiB) * 2 * kMiB;
    EXPECT_LE(memory_account(cluster, {full}, 0).total_bytes(), cluster.device.memory_bytes) << fragmentation;
    EXPECT_GT(memory_account(cluster, {full + 2 * kMiB}, 0).total_bytes(), cluster.device.memory_bytes)
        << fragmentation;
  }
  Cluster bare = pair_of_devices();
  bare.device.overheads = {};
  EXPECT_EQ(largest_peak_bytes(bare), 80 * kGiB - 256 * kMiB);
}

TEST(ValidateCluster, RefusesOverheadsThatAreNonsense) {
  ASSERT_TRUE(validate(pair_of_devices()).ok());
  struct Case {
    std::function<void(Cluster&)> change;
    const char* said;
  };
  const Case cases[] = {
      {[](Cluster& cluster) { cluster.device.overheads.context_bytes = -1; }, "context is -1 bytes"},
      {[](Cluster& cluster) { cluster.device.overheads.workspace_bytes = 80 * kGiB; },
       "workspace is 85899345920 bytes"},
      {[](Cluster& cluster) { cluster.device.overheads.communicator_bytes = std::numeric_limits<std::int64_t>::max(); },
       "communicator is"},
      {[](Cluster& cluster) { cluster.device.overheads.block_bytes = -512; }, "block is -512 bytes"},
      {[](Cluster& cluster) { cluster.device.overheads.small_segment_bytes = 21 * kMiB; }, "are they exchanged?"},
      {[](Cluster& cluster) { cluster.device.overheads.fragmentation = -0.1; }, "fragmentation is -0.1"},
      {[](Cluster& cluster) { cluster.device.overheads.fragmentation = 1.5; }, "fragmentation is 1.5"},
      {[](Cluster& cluster) { cluster.device.overheads.fragmentation = std::numeric_limits<double>::quiet_NaN(); },
       "fragmentation is nan"},
      {[](Cluster& cluster) { cluster.reserved_bytes = 79 * kGiB; }, "leave nothing for a program"}};
  for (const Case& one : cases) {
    Cluster cluster = pair_of_devices();
    one.change(cluster);
    const Status status = validate(cluster);
    ASSERT_FALSE(status.ok()) << one.said;
    EXPECT_NE(status.error().message.find(one.said), std::string::npos) << status.error().message;
  }
}

}  // namespace
}  // namespace meshwright
