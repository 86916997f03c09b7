#include "meshwright/mesh.h"

#include <gtest/gtest.h>

#include <cmath>

#include "meshwright/cost.h"

namespace meshwright {
namespace {

DeviceSpec device() {
  DeviceSpec spec;
  spec.name = "test";
  spec.memory_bytes = 1 << 30;
  spec.memory_bytes_per_second = 1e12;
  spec.vector_flops_per_second = 1e13;
  spec.matrix_flops_per_second[DType::float32] = 1e13;
  return spec;
}

// MAP §7, Figure 5.
Cluster nvlink_pairs() {
  return {"pairs", device(), 8, 1, 0, {{"nvlink", 2, 200e9, 3e-6, 1, false},
                                       {"pcie", 4, 20e9, 5e-6, 1, false},
                                       {"numa", 8, 10e9, 8e-6, 1, false}}};
}

std::vector<std::string> slowest(const Mesh& mesh) {
  std::vector<std::string> links;
  for (const MeshAxis& axis : mesh.axes) links.push_back(axis.slowest_link);
  return links;
}

TEST(MakeMesh, ProductsThatOverflowAreRefused) {
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_FALSE(make_mesh(nvlink_pairs(), {half, half}));
  EXPECT_FALSE(make_mesh(nvlink_pairs(), {half, half, 8}));
  EXPECT_FALSE(make_mesh(nvlink_pairs(), {-2, -4}));
  std::string ones = "8";
  for (int i = 0; i < 100'000; ++i) ones += "x1";
  EXPECT_FALSE(parse_mesh_shape(ones));
}

TEST(ValidateCluster, NumbersThatAreNoneAreRefused) {
  EXPECT_TRUE(validate(nvlink_pairs()));
  for (const double number : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1.0, 1e-320, 1e300}) {
    const auto refuses = [&](auto change) {
      Cluster cluster = nvlink_pairs();
      change(cluster);
      EXPECT_FALSE(validate(cluster)) << number;
    };
    refuses([&](Cluster& c) { c.device.memory_bytes_per_second = number; });
    refuses([&](Cluster& c) { c.device.vector_flops_per_second = number; });
    refuses([&](Cluster& c) { c.device.matrix_flops_per_second[DType::float32] = number; });
    refuses([&](Cluster& c) { c.device.matrix_efficiency = number; });
    refuses([&](Cluster& c) { c.device.memory_efficiency = number; });
    refuses([&](Cluster& c) { c.levels[1].bytes_per_second = number; });
    if (number == 1e-320) continue;  // of seconds, nothing
    refuses([&](Cluster& c) { c.device.launch_seconds = number; });
    refuses([&](Cluster& c) { c.levels[1].latency_seconds = number; });
  }
}

TEST(ValidateCluster, CountsWithoutLimitAreRefused) {
  Cluster cluster = nvlink_pairs();
  cluster.nodes = cluster.devices_per_node = std::int64_t{1} << 32;
  EXPECT_FALSE(validate(cluster));
  cluster = nvlink_pairs();
  cluster.device.memory_bytes = INT64_MAX;
  EXPECT_FALSE(validate(cluster));
}

TEST(MakeMesh, PricesEachAxisByItsSlowestLink) {
  EXPECT_EQ(slowest(*make_mesh(nvlink_pairs(), {2, 2, 2})), (std::vector<std::string>{"numa", "pcie", "nvlink"}));
  EXPECT_EQ(slowest(*make_mesh(nvlink_pairs(), {2, 4})), (std::vector<std::string>{"numa", "pcie"}));
  EXPECT_EQ(slowest(*make_mesh(nvlink_pairs(), {4, 2})), (std::vector<std::string>{"numa", "nvlink"}));
  const Mesh flat = *make_mesh(nvlink_pairs(), {8});
  EXPECT_EQ(flat.axes[0].slowest_link, "numa");
  EXPECT_DOUBLE_EQ(flat.axes[0].beta_seconds_per_byte, 1 / 10e9);
  EXPECT_DOUBLE_EQ(flat.axes[0].alpha_seconds, 8e-6);
}

TEST(MakeMesh, SharesACardAmongTheGroupsThatPassIt) {
  // TAP's cluster: one 4 GB/s card for the 8 GPUs of a server.
  const Cluster cluster{"ethernet", device(), 8, 2, 0, {{"nvlink", 8, 150e9, 4e-6, 1, false},
                                                        {"ethernet", 16, 4e9, 25e-6, 8, false}}};
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {2, 8})->axes[0].beta_seconds_per_byte, 8 / 4e9);
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {16})->axes[0].beta_seconds_per_byte, 1 / 4e9);
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {2, 8})->axes[1].beta_seconds_per_byte, 1 / 150e9);
}

TEST(MakeMesh, GangsTheCardsOfAServer) {
  const Cluster cluster{"infiniband", device(), 8, 8, 0, {{"nvswitch", 8, 450e9, 3e-6, 1, false},
                                                          {"infiniband", 64, 50e9, 6e-6, 1, true}}};
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {8, 8})->axes[0].beta_seconds_per_byte, 1 / 50e9);
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {64})->axes[0].beta_seconds_per_byte, 1 / 400e9);
}

TEST(MakeMesh, RefusesAnotherNumberOfDevices) {
  const Result<Mesh> mesh = make_mesh(nvlink_pairs(), {2, 2});
  ASSERT_FALSE(mesh.ok());
  EXPECT_EQ(mesh.error().message, "a mesh of 4 devices does not cover the cluster 'pairs', which has 8");
}

TEST(ParseMeshShape, ReadsSizesAndRefusesTheRest) {
  EXPECT_EQ(*parse_mesh_shape("2x2x2"), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(*parse_mesh_shape("8"), (std::vector<std::int64_t>{8}));
  for (const char* text : {"", "x", "2x", "x2", "0", "-2", "2*4", "2x4 "}) EXPECT_FALSE(parse_mesh_shape(text).ok()) << text;
}

TEST(CandidateShapes, AreFactorizationsThatKeepServersApart) {
  EXPECT_EQ(candidate_shapes(nvlink_pairs(), 3), (std::vector<std::vector<std::int64_t>>{{8}, {2, 4}, {4, 2}, {2, 2, 2}}));
  Cluster two = nvlink_pairs();
  two.nodes = 2;
  two.levels.push_back({"ethernet", 16, 4e9, 25e-6, 8, false});
  const auto shapes = candidate_shapes(two, 2);
  EXPECT_EQ(shapes, (std::vector<std::vector<std::int64_t>>{{16}, {2, 8}}));
}

TEST(ValidateCluster, NamesWhatIsWrong) {
  Cluster cluster = nvlink_pairs();
  cluster.levels[1].group = 3;
  EXPECT_EQ(validate(cluster).error().message,
            "cluster 'pairs', level 'pcie': group is 3, but must be a multiple of the inner group, 2, and larger");
  cluster = nvlink_pairs();
  cluster.levels.pop_back();
  EXPECT_EQ(validate(cluster).error().message,
            "cluster 'pairs': the levels join 4 devices, but there are 8");
}

TEST(ValidateDetectedLinks, NamesWhatIsWrong) {
  const auto message = [](const DetectedLinks& links) {
    const Status status = validate(links);
    return status ? std::string("accepted") : status.error().message;
  };
  const DetectedLinks good = {2, 2, {{"nvlink", 2, 200e9, 3e-6}, {"pcie", 4, 20e9, 5e-6}}, {0, 3, 1, 2}};
  EXPECT_EQ(message(good), "accepted");
  DetectedLinks links = good;
  links.order = {0, 3, 1, 1};
  EXPECT_NE(message(links).find("each device once"), std::string::npos);
  links.order = {0, 1, 2};
  EXPECT_NE(message(links).find("the order holds 3 devices"), std::string::npos);
  links = good;
  links.nodes = 3;
  links.order = {0, 1, 2, 3, 4, 5};
  EXPECT_NE(message(links).find("the levels join 4 devices"), std::string::npos);
  links = good;
  links.levels[1].bytes_per_second = NAN;
  EXPECT_NE(message(links).find("level 'pcie': bandwidth"), std::string::npos);
  links = good;
  links.nodes = 0;
  EXPECT_NE(message(links).find("must be at least 1"), std::string::npos);
}

TEST(ClusterSource, OfAFileDetectsNothing) {
  class Source final : public ClusterSource {
    Result<Cluster> do_describe(const std::string&) const override { return nvlink_pairs(); }
  };
  const auto links = Source().detect("", "my.toml");
  ASSERT_FALSE(links.ok());
  EXPECT_EQ(links.error().code, ErrorCode::bad_input);
  EXPECT_NE(links.error().message.find("my.toml: this cluster plugin describes clusters and detects no links"), std::string::npos);
}

// A device has one card; only rings use those of its whole server.
TEST(MakeMesh, AnAllToAllAcrossServersGoesOverEachDevicesOwnCard) {
  Cluster cluster{"two servers", device(), 4, 2, 0, {{"nvlink", 4, 300e9, 3e-6, 1, false}, {"network", 8, 25e9, 6e-6, 1, true}}};
  cluster.levels[0].measured = {{4, std::nullopt, {1e6, 1e9}, {50e9, 250e9}}};
  const MeshAxis across = make_mesh(cluster, {8}).value().axes[0], inside = make_mesh(cluster, {2, 4}).value().axes[1];
  EXPECT_GE(collective_seconds(CollectiveKind::all_to_all, across, 1e9), 0.5 * 1e9 / 25e9);
  EXPECT_GE(collective_seconds(CollectiveKind::permute, across, 1e9), 1e9 / 25e9);
  for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce, CollectiveKind::all_to_all, CollectiveKind::permute}) {
    for (double bytes = 1e3; bytes < 1e10; bytes *= 10) {
      EXPECT_GE(collective_seconds(kind, across, bytes), collective_seconds(kind, inside, bytes)) << name(kind) << " of " << bytes;
    }
  }
}

TEST(MakeMesh, LargerGroupsWaitLongerForTheirLast) {
  Cluster cluster = nvlink_pairs();
  cluster.device.skew_seconds = 1e-6;
  EXPECT_DOUBLE_EQ(make_mesh(cluster, {4, 2}).value().axes[1].skew_seconds, 0.5e-6);
  EXPECT_GT(make_mesh(cluster, {8}).value().axes[0].skew_seconds, 1.5e-6);
}

TEST(Mesh, AlongOneAxisIsThatAxis) {
  Mesh mesh;
  mesh.axes.resize(2);
  mesh.axes[0].size = 4;
  mesh.axes[1].size = 2;
  mesh.axes[1].own[CollectiveKind::all_gather] = {{4, 1e-3}};
  EXPECT_EQ(mesh.along(0b10).own.size(), 1U);
  EXPECT_EQ(mesh.along(0b10).size, 2);
  EXPECT_EQ(mesh.along(0b11).size, 8);
}

TEST(MakeMesh, TakesTheCurvesOfACollectiveBesideThoseOfRings) {
  Cluster cluster;
  cluster.devices_per_node = 4;
  LinkLevel level;
  level.name = "loopback";
  level.group = 4;
  level.bytes_per_second = 1e9;
  const auto measured = [&](std::int64_t devices, std::optional<CollectiveKind> only, double rate) { level.measured.push_back({devices, only, {1e6}, {rate}}); };
  measured(4, std::nullopt, 1e9);
  measured(4, CollectiveKind::all_to_all, 2e9);
  measured(2, CollectiveKind::all_to_all, 4e9);
  cluster.levels = {level};
  const Result<Mesh> four = make_mesh(cluster, {4}), two = make_mesh(cluster, {2, 2});
  ASSERT_TRUE(four);
  ASSERT_TRUE(two);
  EXPECT_DOUBLE_EQ(four->axes[0].ring.at(0).seconds_per_byte, 1 / 1e9);
  EXPECT_EQ(four->axes[0].own.size(), 1U);
  EXPECT_DOUBLE_EQ(four->axes[0].own.at(CollectiveKind::all_to_all).at(0).seconds_per_byte, 1 / 2e9);
  EXPECT_DOUBLE_EQ(two->axes[0].own.at(CollectiveKind::all_to_all).at(0).seconds_per_byte, 1 / 4e9);
}

}  // namespace
}  // namespace meshwright
