#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "meshwright/cost.h"
#include "meshwright/plugin.h"

namespace meshwright {
extern "C" const meshwright_plugin_v1* meshwright_plugin() noexcept;

namespace {

using testing::HasSubstr;

Config config_of(std::int64_t ranks, double point_seconds, std::int64_t bucket_bytes = 1000) {
  Config config;
  config.set("ranks", ranks);
  config.set("point_seconds", point_seconds);
  config.set("bucket_bytes", bucket_bytes);
  return config;
}

std::unique_ptr<Profiler> profiler_of(const Config& config, Error& error) {
  return std::unique_ptr<Profiler>(static_cast<Profiler*>(meshwright_plugin()->create(config, error)));
}

// Of a cluster that nobody has measured, and that no machine can be: what is measured differs from all of it.
Cluster described() {
  Cluster cluster;
  cluster.name = "cpu";
  cluster.devices_per_node = 2;
  cluster.levels = {{"link", 2, 7e8, 3e-6}};
  DeviceSpec& device = cluster.device;
  device.name = "core";
  device.memory_bytes = 12345;
  device.memory_bytes_per_second = 1;
  device.vector_flops_per_second = 1;
  device.matrix_flops_per_second = {{DType::float32, 1}, {DType::float64, 3}};
  device.launch_seconds = 100;
  device.matrix_efficiency = 0.5;
  device.skew_seconds = 0.25;
  return cluster;
}

std::string refused(const Config& config) {
  Error error;
  EXPECT_EQ(profiler_of(config, error), nullptr);
  return error.message;
}

TEST(Measured, RefusesKeysThatMakeNoSense) {
  EXPECT_THAT(refused(config_of(0, 0.02)), HasSubstr("ranks must be at least 1"));
  EXPECT_THAT(refused(config_of(-1, 0.02)), HasSubstr("ranks must be at least 1"));
  EXPECT_THAT(refused(config_of(1, 0.9e-4)), HasSubstr("point_seconds must be from 0.0001 to 1"));
  EXPECT_THAT(refused(config_of(1, 1.1)), HasSubstr("point_seconds must be"));
  EXPECT_THAT(refused(config_of(1, 0.02, 0)), HasSubstr("bucket_bytes must be more than 0"));
  Error error;
  EXPECT_NE(profiler_of(config_of(1, 1e-4), error), nullptr) << error.message;
  EXPECT_NE(profiler_of(config_of(1, 1), error), nullptr) << error.message;
}

TEST(Measured, ReplacesWhatItMeasuresAndNothingElse) {
  Error error;
  const auto profiler = profiler_of(config_of(1, 1e-4), error);
  ASSERT_NE(profiler, nullptr) << error.message;
  const Result<CostProfile> profile = profiler->profile(described());
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->bucket_bytes, 1000);
  const DeviceSpec before = described().device, &after = profile->device;
  EXPECT_NE(after.memory_bytes_per_second, before.memory_bytes_per_second);
  EXPECT_NE(after.vector_flops_per_second, before.vector_flops_per_second);
  EXPECT_NE(after.launch_seconds, before.launch_seconds);
  EXPECT_NE(after.matrix_flops_per_second.at(DType::float32), 1);
  ASSERT_TRUE(after.product_curves.contains(DType::float32));
  EXPECT_EQ(after.product_curves.at(DType::float32).sizes.front(), 2.0 * 32 * 32 * 32);
  EXPECT_EQ(after.product_curves.at(DType::float32).sizes.back(), 2.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(after.memory_curve.sizes.front(), 3072);
  EXPECT_EQ(after.memory_curve.sizes.back(), 201326592);
  EXPECT_EQ(after.matrix_flops_per_second.at(DType::float64), 3);
  EXPECT_EQ(after.name, before.name);
  EXPECT_EQ(after.memory_bytes, before.memory_bytes);
  EXPECT_EQ(after.matrix_efficiency, before.matrix_efficiency);
  EXPECT_EQ(after.skew_seconds, before.skew_seconds);
  EXPECT_EQ(after.product_curves.size(), 1);
}

TEST(Measured, RecallsWithoutMeasuring) {
  Error error;
  const auto profiler = profiler_of(config_of(1'000'000, 1e-4), error);  // more than it could measure with
  ASSERT_NE(profiler, nullptr) << error.message;
  const Result<CostProfile> profile = profiler->recall(described());
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->bucket_bytes, 1000);
  EXPECT_EQ(profile->device.launch_seconds, 100);
  EXPECT_TRUE(profile->device.product_curves.empty());
  const Result<CostProfile> measured = profiler->profile(described());
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code, ErrorCode::bad_input);
  EXPECT_THAT(measured.error().message, HasSubstr("ranks in [profiler.measured] is 1000000, but this machine runs"));
}

TEST(Measured, RefusesAGpu) {
  Error error;
  const auto profiler = profiler_of(config_of(1, 1e-4), error);
  ASSERT_NE(profiler, nullptr) << error.message;
  Cluster cluster = described();
  cluster.device.multiprocessors = 108;
  Result<CostProfile> profile = profiler->profile(cluster);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::bad_input);
  EXPECT_THAT(profile.error().message, HasSubstr("device 'core' is a GPU"));
  cluster = described();
  cluster.device.attention["flash_2"] = {0.5};
  EXPECT_FALSE(profiler->profile(cluster));
}

}  // namespace
}  // namespace meshwright
