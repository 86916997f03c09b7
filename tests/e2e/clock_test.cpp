// What a device's file says of its clock: the host's launches, the kernels of attention, measured bandwidths; and `meshwright calibrate`, which fits it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "meshwright/timeline.h"
#include "planned_program.h"
#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;

const std::string kClocked = SOURCE_FOLDER "/tests/models/mlp_tiny.pt2";

class Clock : public test::FolderTest {
 protected:
  // A cluster of eight slow devices, whose file has these lines too.
  std::string cluster(const std::string& name, const std::string& device_lines, const std::string& level_lines = "") const {
    write(name + "_device.toml", device_lines + slow_device());
    return cluster_of(name, name + "_device.toml", level_lines);
  }

  std::string cluster_of(const std::string& name, const std::string& device, const std::string& level_lines = "") const {
    write(name + ".toml", "name = \"" + name + "\"\nnodes = 1\ndevices_per_node = 8\ndevice = \"" + device +
                              "\"\nreserved_bytes = \"0GiB\"\n\n[[level]]\nname = \"link\"\ngroup = 8\nbandwidth = \"1GB/s\"\nlatency = \"1us\"\n" + level_lines);
    return path(name + ".toml");
  }

  // Data parallel, so that the plan is the same whatever the clock says.
  double step_seconds(const std::string& cluster_file, const std::string& plan, const std::string& settings = "") const {
    const Outcome outcome = run_program("plan " + kClocked + " --cluster " + cluster_file + " --mesh 8 --set search.zero=0 --set search.batch_axes=all -o " + path(plan) + " " + settings);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? nlohmann::json::parse(read(path(plan)))["step_seconds"].get<double>() : 0;
  }

 private:
  static std::string slow_device() { return read(TEST_FOLDER "/slow_device.toml"); }
};

TEST_F(Clock, TheHostsLaunchesAreGoneUnderCudaGraphs) {
  const std::string none = cluster("none", "host_launch = \"0us\"\n"), slow = cluster("slow", "host_launch = \"1ms\"\n");
  const double device = step_seconds(none, "none.json"), host = step_seconds(slow, "slow.json");
  EXPECT_GT(host, 0.02);  // over twenty kernels, forward and backward
  EXPECT_DOUBLE_EQ(step_seconds(slow, "graphs.json", "--set train.cuda_graphs=true"), device);
  EXPECT_THAT(nlohmann::json::parse(read(path("slow.json")))["notes"].dump(), HasSubstr("host"));
}

TEST_F(Clock, OpsThatAreFusedLaunchTogetherAndThePlanSaysThatACompilerDoes) {
  const std::string none = cluster("none", "host_launch = \"0us\"\n"), slow = cluster("slow", "host_launch = \"1ms\"\n");
  const auto compiled = [&](const std::string& cluster_file, const std::string& plan) {
    return step_seconds(cluster_file, plan, "--set train.compile=true");
  };
  EXPECT_LT(compiled(none, "fused.json"), step_seconds(none, "eager.json"));
  const double fused = compiled(slow, "fused_slow.json"), eager = step_seconds(slow, "eager_slow.json");
  EXPECT_LT(fused, eager - 2e-3);  // at least two launches less
  const auto training = [&](const std::string& plan) { return nlohmann::json::parse(read(path(plan)))["training"]; };
  EXPECT_EQ(training("fused.json")["compile"], true);
  EXPECT_FALSE(training("eager.json").contains("compile"));
  const auto simulated = [&](const std::string& plan) {
    const Outcome outcome = run_program("simulate " + path(plan) + " --format json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.output)["step_seconds"].get<double>() : 0;
  };
  EXPECT_DOUBLE_EQ(simulated("fused_slow.json"), fused);
  EXPECT_DOUBLE_EQ(simulated("eager_slow.json"), eager);
}

TEST_F(Clock, FollowsCurvesThatWereMeasured) {
  const auto with = [&](const std::string& name, const std::string& curve, const std::string& level = "") {
    write(name + "_device.toml", read(TEST_FOLDER "/slow_device.toml") + curve);
    return cluster_of(name, name + "_device.toml", level);
  };
  const double plain = step_seconds(with("plain", ""), "plain.json");
  const double products = step_seconds(with("products", "\n[product_curve.float32]\nflops = [\"1FLOP\", \"1GFLOP\"]\nrates = [\"1kFLOP/s\", \"1MFLOP/s\"]\n"), "products.json");
  EXPECT_GT(products, plain);
  EXPECT_GT(step_seconds(with("memory", "\n[memory_curve]\nbytes = [\"1B\"]\nbandwidth = [\"1kB/s\"]\n"), "memory.json"), plain);
  const std::string sums = "\n[[level.measured]]\ndevices = 8\ncollective = \"all_reduce\"\nbytes = [\"1kB\"]\nbus_bandwidth = [\"1kB/s\"]\n";
  EXPECT_GT(step_seconds(with("sums", "", sums), "sums.json"), plain);
  // The plan has the curves in it.
  const Outcome again = run_program("simulate " + path("products.json") + " --format json");
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(again.output)["step_seconds"].get<double>(), products);

  const auto refused = [&](const std::string& curve, const std::string& level = "") {
    const Outcome outcome = run_program("plan " + kClocked + " --cluster " + with("wrong", curve, level) + " -o " + path("wrong.json"));
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_THAT(refused("\n[memory_curve]\nbytes = [\"1kB\", \"2kB\"]\nbandwidth = [\"1GB/s\"]\n"), HasSubstr("[memory_curve]: there must be one of 'bandwidth' for each of 'bytes'"));
  EXPECT_THAT(refused("\n[memory_curve]\nbytes = [\"2kB\", \"1kB\"]\nbandwidth = [\"1GB/s\", \"1GB/s\"]\n"), HasSubstr("must ascend"));
  EXPECT_THAT(refused("\n[product_curve.float32]\nflops = [\"1FLOP\", \"2FLOP\"]\nrates = [\"1FLOP/s\", \"3FLOP/s\"]\n"), HasSubstr("would be sooner done"));
  EXPECT_THAT(refused("\n[product_curve.real]\nflops = [\"1FLOP\"]\nrates = [\"1FLOP/s\"]\n"), HasSubstr("'real' is not a dtype"));
  EXPECT_THAT(refused("", "\n[[level.measured]]\ndevices = 8\ncollective = \"broadcast\"\nbytes = [\"1kB\"]\nbus_bandwidth = [\"1kB/s\"]\n"), HasSubstr("'broadcast', but must be one of all_gather"));
}

TEST_F(Clock, CalibrateFindsWhatTheHostTakes) {
  const std::string before = cluster("before", "host_launch = \"20us\"\nhost_collective = \"20us\"\n"), truth = cluster("truth", "host_launch = \"40us\"\nhost_collective = \"20us\"\n");
  step_seconds(before, "before.json");
  const double measured = step_seconds(truth, "truth.json");
  std::ostringstream rows;
  rows.precision(17);
  rows << "plan,seconds\nbefore.json," << measured << "\n";
  write("rows.csv", rows.str());
  const Outcome outcome = run_program("calibrate " + path("rows.csv") + " --coefficients host_launch --format json -o " + path("fitted.toml"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto found = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(found["rows"], 1);
  EXPECT_NEAR(found["coefficients"]["host_launch"]["before"].get<double>(), 20e-6, 1e-12);
  EXPECT_NEAR(found["coefficients"]["host_launch"]["after"].get<double>(), 40e-6, 0.5e-6);
  EXPECT_LT(found["error_after"].get<double>(), 0.01);
  EXPECT_LT(found["error_after"].get<double>(), found["error_before"].get<double>());
  // What it wrote is a device's file.
  EXPECT_NEAR(step_seconds(cluster_of("again", "fitted.toml"), "again.json"), measured, 0.01 * measured);
}

TEST_F(Clock, CalibrateSaysWhatIsWrongWithTheRows) {
  step_seconds(cluster("slow", "host_launch = \"20us\"\n"), "slow.json");
  const auto message = [&](const std::string& rows, const std::string& options) {
    write("rows.csv", rows);
    const Outcome outcome = run_program("calibrate " + path("rows.csv") + " " + options);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_THAT(message("plan\nslow.json\n", ""), HasSubstr("there is no column 'seconds'"));
  EXPECT_THAT(message("plan,seconds\n", ""), HasSubstr("no row was measured"));
  EXPECT_THAT(message("plan,seconds\nslow.json,fast\n", ""), HasSubstr("rows.csv:2: 'fast' are no seconds of a step"));
  EXPECT_THAT(message("plan,seconds\nslow.json,-1\n", ""), HasSubstr("are no seconds"));
  EXPECT_THAT(message("plan,seconds\nslow.json,1,2\n", ""), HasSubstr("3 cells, but 2 columns"));
  EXPECT_THAT(message("plan,seconds\nslow.json,1\n", "--coefficients luck"), HasSubstr("'luck' is none; known are"));
  EXPECT_THAT(message("plan,seconds\nslow.json,1\n", "--coefficients skew,skew"), HasSubstr("named twice"));
  EXPECT_THAT(message("plan,seconds\nslow.json,1\n", "--coefficients skew,launch"), HasSubstr("coefficients"));
  EXPECT_THAT(message("plan,seconds\nnothing.json,1\n", "--coefficients skew"), HasSubstr("nothing.json"));
}

TEST_F(Clock, EveryDeviceThatComesWithTheProjectIsRead) {
  int read = 0;
  for (const auto& file : std::filesystem::directory_iterator(SOURCE_FOLDER "/configs/devices")) {
    step_seconds(cluster_of(file.path().stem().string(), file.path().string()), "device.json");
    ++read;
  }
  EXPECT_GE(read, 9);
}

TEST_F(Clock, AttentionOfAKernelThatTheDeviceLacksIsRefused) {
  const Outcome outcome = run_program("plan " + kClocked + " --cluster " SOURCE_FOLDER "/configs/clusters/a100x8_nvswitch.toml --set train.attention=flash_3");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("attention is 'flash_3'"));
  EXPECT_THAT(outcome.errors, HasSubstr("it has flash_1, flash_2"));
}

TEST_F(Clock, MeasuredBandwidthsReplaceTheDataSheetsAndAreChecked) {
  const auto curve = [](const std::string& bytes, const std::string& rates) {
    return "\n[[level.measured]]\ndevices = 8\nbytes = " + bytes + "\nbus_bandwidth = " + rates + "\n";
  };
  const double sheet = step_seconds(cluster("sheet", "host_launch = \"0us\"\n"), "sheet.json");
  const double half = step_seconds(cluster("half", "host_launch = \"0us\"\n", curve("[\"1kB\", \"1GB\"]", "[\"0.1GB/s\", \"0.1GB/s\"]")), "half.json");
  EXPECT_GT(half, sheet);
  const auto message = [&](const std::string& lines) {
    return run_program("plan " + kClocked + " --cluster " + cluster("wrong", "host_launch = \"0us\"\n", lines)).errors;
  };
  EXPECT_THAT(message(curve("[\"1GB\", \"1kB\"]", "[\"1GB/s\", \"1GB/s\"]")), HasSubstr("bytes must ascend"));
  EXPECT_THAT(message(curve("[\"1GB\"]", "[\"1GB/s\", \"1GB/s\"]")), HasSubstr("one bandwidth for each number of bytes"));
  EXPECT_THAT(message(curve("[\"1kB\", \"2kB\"]", "[\"1GB/s\", \"9GB/s\"]")), HasSubstr("is a bandwidth mistyped?"));
}

// One plan, with and without a compiler: instruction by instruction, and as a whole.
class Compiler : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Compiler, MakesNothingLongerAndLeavesProductsAsTheyAre) {
  const auto [model, mesh] = GetParam();
  const std::vector<std::string> settings = {"train.batch_coupling=allow", "train.microbatches=2"};
  const Result<test::PlannedProgram> eager = test::planned_program(model, mesh, settings);
  ASSERT_TRUE(eager) << eager.error().message;
  Plan plan = eager->plan;
  plan.training.compile = true;
  const Result<test::PlannedProgram> compiled = test::program_of(std::move(plan));
  ASSERT_TRUE(compiled) << compiled.error().message;
  const std::vector<Work> before = works_of(eager->program, *eager->tools.ops);
  const std::vector<Work> after = works_of(compiled->program, *compiled->tools.ops);
  ASSERT_EQ(before.size(), after.size());
  double bytes_before = 0, bytes_after = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string& name = eager->program.instructions[i].name;
    const CostProfile& profile = eager->tools.profile;
    EXPECT_EQ(before[i].vector_flops, after[i].vector_flops) << name;
    EXPECT_LE(after[i].bytes, before[i].bytes) << name;
    EXPECT_LE(compute_seconds(profile, after[i]), compute_seconds(profile, before[i])) << name;
    bytes_before += before[i].bytes;
    bytes_after += after[i].bytes;
    if (before[i].matrix_flops == 0) continue;
    EXPECT_EQ(after[i].bytes, before[i].bytes) << name;
    EXPECT_TRUE(after[i].launches) << name;
  }
  EXPECT_LT(bytes_after, bytes_before);
  const auto timeline = [](const test::PlannedProgram& of) {
    return make_timeline(of.program, *of.tools.ops, of.tools.profile).value();
  };
  const Timeline slow = timeline(*eager), fast = timeline(*compiled);
  EXPECT_LT(fast.host_seconds, slow.host_seconds);
  EXPECT_LT(fast.step_seconds, slow.step_seconds);
  EXPECT_EQ(fast.communication_seconds, slow.communication_seconds);
}

INSTANTIATE_TEST_SUITE_P(Models, Compiler,
                         testing::Combine(testing::Values("mlp_tiny", "gpt2_tiny", "llama_tiny", "bert_tiny", "t5_tiny", "resnet_tiny",
                                                          "unet_tiny", "mixtral_tiny", "swin_tiny"),
                                          testing::Values("2x2", "4")),
                         [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

// A search that knows of the compiler does no worse either.
TEST(CompilerSearched, MakesNoStepLonger) {
  for (const char* model : {"gpt2_tiny", "llama_tiny", "vit_tiny", "resnet_tiny"}) {
    const Result<host::PlanOutcome> eager = test::plan_tiny(model, "2x2", {"train.batch_coupling=allow"});
    const Result<host::PlanOutcome> compiled = test::plan_tiny(model, "2x2", {"train.batch_coupling=allow", "train.compile=true"});
    ASSERT_TRUE(eager && eager->plan && compiled && compiled->plan) << model;
    EXPECT_LT(compiled->plan->objective_seconds, eager->plan->objective_seconds) << model;
    EXPECT_LT(compiled->plan->step_seconds, eager->plan->step_seconds) << model;
  }
}

}  // namespace
}  // namespace meshwright
