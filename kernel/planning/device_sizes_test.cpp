#include "device_sizes.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

const std::vector<std::int64_t> kSizes = {8, 16, 32, 64};

SizesThatPay pay(const std::vector<PartTrial>& trials, const std::vector<std::int64_t>& sizes = kSizes) { return sizes_that_pay(trials, sizes).value(); }

TEST(DeviceSizes, TheBestPartMayHaveFewerDevices) {
  const std::vector<PartTrial> trials = {{8, 4}, {16, 2}, {32, 2}, {64, 3}, {128, 0}};
  EXPECT_EQ(best_part(trials, 8), 0U);
  EXPECT_EQ(best_part(trials, 16), 1U);
  EXPECT_EQ(best_part(trials, 32), 1U);  // no faster: the others idle
  EXPECT_EQ(best_part(trials, 128), 1U);
  EXPECT_FALSE(best_part(trials, 4));
  EXPECT_FALSE(sizes_that_pay({{8, 0}}, {8}));
}

TEST(DeviceSizes, LinearSpeedPaysUpToTheLargest) {
  const SizesThatPay pays = pay({{8, 8}, {16, 4}, {32, 2}, {64, 1}});
  EXPECT_EQ(pays.shortest, 64);
  EXPECT_EQ(pays.most_per_device, 8);  // the fewest of those that do as much
  EXPECT_EQ(pays.pays_up_to, 64);
  EXPECT_FALSE(pays.next);
}

// From 8 to 16 devices 1.6 times as fast: an added device does 60 %. From there on 1.25 times: 16 added ones do 0.4 of what 8 did.
TEST(DeviceSizes, StopsWhereAddedDevicesDoLessThanHalf) {
  const SizesThatPay pays = pay({{8, 8}, {16, 5}, {32, 4}, {64, 3.9}});
  EXPECT_EQ(pays.shortest, 64);
  EXPECT_EQ(pays.pays_up_to, 16);
  EXPECT_EQ(pays.next->devices, 32);
  EXPECT_NEAR(pays.next->share, (1 / 4.0 - 1 / 5.0) / 16 / (1 / 8.0 / 8), 1e-12);
}

// A size that gains nothing does not hide a larger one that does, and is not held against it.
TEST(DeviceSizes, LooksBeyondASizeThatGainsLittle) {
  const SizesThatPay pays = pay({{8, 8}, {16, 7.9}, {32, 2}, {64, 2}});
  EXPECT_EQ(pays.pays_up_to, 32);
  EXPECT_FALSE(pays.next);
  EXPECT_EQ(pays.shortest, 32);
}

// Few devices that run much again are no measure.
TEST(DeviceSizes, ComparesWithWhereADeviceDoesMost) {
  const SizesThatPay pays = pay({{8, 32}, {16, 8}, {32, 5}, {64, 4.9}});
  EXPECT_EQ(pays.most_per_device, 16);
  EXPECT_EQ(pays.pays_up_to, 32);
}

// Parts that nobody asked about count where they are best at a size.
TEST(DeviceSizes, PartsWithinASizeCount) {
  const std::vector<PartTrial> trials = {{8, 8}, {16, 4}, {24, 5}};
  EXPECT_EQ(pay(trials, {8, 24}).shortest, 16);
  EXPECT_EQ(pay(trials, {8}).shortest, 8);
}

TEST(DeviceSizes, ThePartsOfASizeAreItselfAndAPowerOfTwoOfServers) {
  Cluster cluster;
  cluster.devices_per_node = 8;
  cluster.nodes = 16;
  cluster.levels = {{"server", 8, 20e9, 2e-6}, {"all", 128, 5e9, 5e-6}};
  EXPECT_EQ(parts_to_plan(cluster, {4, 24, 64}), (std::vector<std::int64_t>{4, 16, 24, 64}));
  EXPECT_EQ(parts_to_plan(cluster, {56}), (std::vector<std::int64_t>{32, 56}));
}

}  // namespace
}  // namespace meshwright
