#include "cluster_part.h"

#include <gtest/gtest.h>

#include "stage_devices.h"

namespace meshwright {
namespace {

// Three racks of four servers, each of four pairs.
Cluster racks() {
  Cluster cluster;
  cluster.name = "racks";
  cluster.devices_per_node = 8;
  cluster.nodes = 12;
  cluster.device.memory_bytes = 1 << 30;
  cluster.device.memory_bytes_per_second = 1e12;
  cluster.device.matrix_flops_per_second[DType::float32] = 1e12;
  cluster.device.vector_flops_per_second = 1e12;
  cluster.levels = {{"pair", 2, 200e9, 1e-6}, {"server", 8, 20e9, 2e-6}, {"rack", 32, 10e9, 5e-6, 8}, {"all", 96, 5e9, 5e-6, 32}};
  cluster.levels[1].measured = {{2, std::nullopt, {1e6}, {1e10}}, {4, std::nullopt, {1e6}, {2e10}}, {8, std::nullopt, {1e6}, {3e10}}};
  return cluster;
}

std::string refusal(std::int64_t devices) {
  const Result<Cluster> part = cluster_part(racks(), devices);
  return part ? "" : part.error().message;
}

// Each is one that a user could describe, has as many devices, and the links of the whole between them.
TEST(ClusterPart, IsAClusterWithTheLinksOfTheWhole) {
  const Cluster whole = racks();
  ASSERT_TRUE(validate(whole));
  int parts = 0;
  for (std::int64_t devices = 1; devices <= whole.devices(); ++devices) {
    const Result<Cluster> part = cluster_part(whole, devices);
    if (!part) continue;
    ++parts;
    EXPECT_TRUE(validate(*part)) << devices;
    EXPECT_EQ(part->devices(), devices);
    for (std::size_t i = 0; i < part->levels.size(); ++i) {
      EXPECT_EQ(part->levels[i].name, whole.levels[i].name);
      EXPECT_EQ(part->levels[i].bytes_per_second, whole.levels[i].bytes_per_second);
    }
  }
  EXPECT_EQ(parts, 3 + 4 + 2);  // parts of a server, of a rack, and two or three racks
}

TEST(ClusterPart, LevelsAreCutAtWhatItHas) {
  const Cluster half = cluster_part(racks(), 4).value(), three = cluster_part(racks(), 24).value(), two_racks = cluster_part(racks(), 64).value();
  EXPECT_EQ(half.nodes, 1);
  EXPECT_EQ(half.devices_per_node, 4);
  ASSERT_EQ(half.levels.size(), 2U);
  EXPECT_EQ(half.levels[1].group, 4);
  EXPECT_EQ(half.levels[1].measured.size(), 2U);  // of groups that there are
  EXPECT_EQ(three.nodes, 3);
  ASSERT_EQ(three.levels.size(), 3U);
  EXPECT_EQ(three.levels[2].group, 24);
  EXPECT_EQ(three.levels[2].sharers, 8);
  EXPECT_EQ(two_racks.levels[2].group, 32);
  EXPECT_EQ(two_racks.levels[3].group, 64);
  EXPECT_TRUE(cluster_part(racks(), 1).value().levels.empty());
}

TEST(ClusterPart, RefusesWhatIsNoPartAndNamesTheNearest) {
  EXPECT_EQ(refusal(0), "0 devices of 'racks': a part of a cluster has at least one");
  EXPECT_EQ(refusal(-8), "-8 devices of 'racks': a part of a cluster has at least one");
  EXPECT_EQ(refusal(97), "97 devices of 'racks', which has 96: take at most these");
  EXPECT_EQ(refusal(3), "3 devices of 'racks' are neither whole servers of 8 nor an even part of one; take 2 or 4");
  EXPECT_EQ(refusal(12), "12 devices of 'racks' are neither whole servers of 8 nor an even part of one; take 8 or 16");
  EXPECT_EQ(refusal(40), "40 devices of 'racks' are not whole groups of level 'rack', which joins 32; take 32 or 64");
}

TEST(ClusterPart, AStageIsOne) {
  EXPECT_EQ(StageDevices::even(racks(), 3)->cluster(0).levels.size(), 3U);
  EXPECT_EQ(StageDevices::even(racks(), 2).error().message, "96 devices of 'racks' in 2 stages: 48 devices of 'racks' are not whole groups of level 'rack', which joins 32; take 32 or 64");
  EXPECT_EQ(StageDevices::even(racks(), 8).error().message, "96 devices of 'racks' in 8 stages: 12 devices of 'racks' are neither whole servers of 8 nor an even part of one; take 8 or 16");
}

}  // namespace
}  // namespace meshwright
