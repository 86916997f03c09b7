// `meshwright measure`, and plans whose clock was measured. What was measured is never asserted, only where it goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

const std::string kMeasuredModel = SOURCE_FOLDER "/tests/models/mlp_tiny.pt2";
const std::string kQuickPoints = " --set profiler.measured.point_seconds=1e-4";
const std::string kMeasured = kQuickPoints + " --set search.profiler=measured";

class Measure : public test::FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write("slow.toml", read(TEST_FOLDER "/slow_device.toml"));
  }
  // Four of a device on links of their own.
  std::string cluster_of(const std::string& device) const {
    write("cluster.toml", "name = \"four\"\nnodes = 1\ndevices_per_node = 4\ndevice = \"" + device +
                              "\"\nreserved_bytes = \"0GiB\"\n\n[[level]]\nname = \"link\"\ngroup = 4\n"
                              "bandwidth = \"1.25GB/s\"\nlatency = \"7us\"\n");
    return path("cluster.toml");
  }

  static std::string output_of(const std::string& arguments) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.errors;
    return outcome.output;
  }

  // The plan that is made with these settings.
  json plan(const std::string& cluster, const std::string& name, const std::string& settings = "") const {
    output_of("plan " + kMeasuredModel + " --cluster " + cluster + " -o " + path(name) + settings);
    return json::parse(read(path(name)), nullptr, false);
  }
};

TEST_F(Measure, WritesADeviceThatAClusterTakes) {
  const std::string device = path("device.toml");
  const json said = json::parse(output_of("measure -o " + device + " --format json" + kQuickPoints));
  EXPECT_EQ(said["profiler"], "measured");
  EXPECT_EQ(said["settings"]["ranks"], 1);
  const std::string file = read(device);
  EXPECT_THAT(file, HasSubstr("# By profilers/measured 0.1.0: "));
  EXPECT_THAT(file, HasSubstr("# [profiler.measured] bucket_bytes = 25000000, point_seconds = 0.0001, ranks = 1\n"));
  EXPECT_THAT(file, HasSubstr("[product_curve.float32]"));
  EXPECT_THAT(file, HasSubstr("[memory_curve]"));
  for (const std::string& cluster : {cluster_of("device.toml"), device}) {  // a device is a cluster of one
    const json planned = plan(cluster, "plan.json")["cluster"];
    EXPECT_EQ(planned["device"], "CPU");
    EXPECT_EQ(planned["memory_bytes"], said["cluster"]["memory_bytes"]);
    ASSERT_TRUE(planned.contains("product_curves"));
    const auto rates = [](const json& of) {
      return of["product_curves"]["float32"]["rates"].get<std::vector<double>>();
    };
    const std::vector<double> read_back = rates(planned), measured = rates(said["cluster"]);
    ASSERT_EQ(read_back.size(), 11);
    ASSERT_EQ(read_back.size(), measured.size());
    for (std::size_t i = 0; i < measured.size(); ++i) EXPECT_NEAR(read_back[i] / measured[i], 1, 1e-5);  // six digits
  }
}

TEST_F(Measure, KeepsWhatTheDevicesFileSaysOfTheRest) {
  const std::string device = path("device.toml");
  output_of("measure --device " + path("slow.toml") + " -o " + device + kQuickPoints);
  const json before = plan(cluster_of("slow.toml"), "before.json")["cluster"];
  const json after = plan(cluster_of("device.toml"), "after.json")["cluster"];
  for (const char* key : {"device", "memory_bytes", "matrix_efficiency", "memory_efficiency", "host_launch_seconds"}) {
    EXPECT_EQ(before[key], after[key]) << key;
  }
  EXPECT_FALSE(before.contains("product_curves"));
  EXPECT_TRUE(after.contains("product_curves"));
}

TEST_F(Measure, AsksTheProfilerThatIsNamed) {
  const std::string device = " --device " + path("slow.toml");
  const std::string text = output_of("measure --profiler roofline -o " + path("same.toml") + device);
  EXPECT_THAT(text, HasSubstr("same.toml"));
  EXPECT_THAT(read(path("same.toml")), HasSubstr("# By profilers/roofline"));
  const json before = plan(cluster_of("slow.toml"), "before.json"), after = plan(cluster_of("same.toml"), "after.json");
  EXPECT_EQ(before["step_seconds"], after["step_seconds"]);
}

TEST_F(Measure, APlanKeepsWhatWasMeasuredForIt) {
  const json planned = plan(cluster_of("slow.toml"), "plan.json", kMeasured);
  EXPECT_EQ(planned["cluster"]["device"], "slow");
  ASSERT_TRUE(planned["cluster"].contains("product_curves") && planned["cluster"].contains("memory_curve"));
  EXPECT_EQ(planned["cluster"]["product_curves"]["float32"]["sizes"].size(), 11);
  EXPECT_EQ(planned["cluster"]["memory_curve"]["sizes"].size(), 9);
  EXPECT_THAT(planned["plugins"].dump(), HasSubstr("\"measured\""));
  const std::string once = output_of("simulate " + path("plan.json") + " --format json");
  EXPECT_EQ(once, output_of("simulate " + path("plan.json") + " --format json"));
  EXPECT_EQ(json::parse(once)["step_seconds"], planned["step_seconds"]);
  // With so many ranks nothing can be measured, so nothing was.
  EXPECT_EQ(once, output_of("simulate " + path("plan.json") + " --format json --set profiler.measured.ranks=1000000"));
  output_of("verify " + path("plan.json") + " --set profiler.measured.ranks=1000000");
  write("rows.csv", "plan,seconds\nplan.json,0.01\n");
  output_of("calibrate " + path("rows.csv") + " --coefficients skew --set profiler.measured.ranks=1000000");
}

TEST_F(Measure, SolversAreComparedByOneClock) {
  const std::string solvers = " --no-verify --format json --mesh 4 --set search.step_rounds=0 --intra elimination,ilp_lp_solve";
  const std::string cluster = " --cluster " + cluster_of("slow.toml");
  const json compared = json::parse(output_of("compare " + kMeasuredModel + solvers + cluster + kMeasured));
  ASSERT_EQ(compared["solvers"].size(), 2);
  EXPECT_EQ(compared["solvers"][0]["status"], "optimal");
  EXPECT_EQ(compared["solvers"][1]["status"], "optimal");
  EXPECT_EQ(compared["solvers"][0]["objective_seconds"], compared["solvers"][1]["objective_seconds"]);
}

TEST_F(Measure, SaysWhatIsWrongAndWritesNothing) {
  const auto refused = [&](const std::string& options) {
    const Outcome outcome = run_program("measure -o " + path("none.toml") + " " + options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_FALSE(std::filesystem::exists(path("none.toml"))) << options;
    return outcome.errors;
  };
  EXPECT_THAT(refused("--set profiler.measured.ranks=0"), HasSubstr("ranks must be at least 1"));
  EXPECT_THAT(refused("--set profiler.measured.ranks=1000000"), HasSubstr("this machine runs"));
  EXPECT_THAT(refused("--set profiler.measured.point_seconds=0.0"), HasSubstr("must be from 0.0001 to 1"));
  EXPECT_THAT(refused("--set profiler.measured.point_seconds=2.0"), HasSubstr("point_seconds must be"));
  EXPECT_THAT(refused("--set profiler.measured.rank=1"), HasSubstr("ranks"));
  EXPECT_THAT(refused("--profiler mesured"), HasSubstr("measured"));
  EXPECT_THAT(refused("--profiler roofline"), HasSubstr("name a device's file with --device"));
  EXPECT_THAT(refused("--device " + path("nothing.toml")), HasSubstr("nothing.toml: no such file"));
  EXPECT_THAT(refused("--device " + cluster_of("slow.toml")), HasSubstr("this is a cluster of 4"));
  EXPECT_THAT(refused("--device " SOURCE_FOLDER "/configs/devices/a100_80gb.toml"), HasSubstr("is a GPU"));
  EXPECT_EQ(run_program("measure").exit_code, 2);  // -o is missing
  EXPECT_NE(run_program("measure -o /dev/null/device.toml" + kQuickPoints).exit_code, 0);
  const std::string none = kMeasured + " --set profiler.measured.ranks=0";
  const Outcome planned = run_program("plan " + kMeasuredModel + " --cluster " + cluster_of("slow.toml") + none);
  EXPECT_EQ(planned.exit_code, 2);
  EXPECT_THAT(planned.errors, HasSubstr("ranks must be at least 1"));
}

}  // namespace
}  // namespace meshwright
