// Stages of unlike numbers of devices, and on unlike devices: [search] stage_devices, and clusters of parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <ostream>

#include "planned_pipeline.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"
#include "units.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::json_of;
using test::list;
using test::real;
using test::run_program;
using test::scratch;
using test::verify_and_simulate;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string plan_command(const std::string& model, const std::string& cluster, const std::string& options) {
  return "plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/" + cluster + ".toml --set search.step_rounds=0 --set search.sure=false " + options;
}

std::string refusal(const std::string& cluster, const std::string& options) {
  const Outcome outcome = run_program(plan_command("gpt2_deep_tiny", cluster, options));
  EXPECT_EQ(outcome.exit_code, 2) << options << outcome.output;
  return outcome.errors;
}

// Steps of what it is set beside, by name.
double step_beside(const Json& planned, const std::string& name) {
  for (const Json& each : list(planned, "comparisons")) {
    if (std::get<std::string>(each.find("name")->value()) == name) return real(each, "step_seconds");
  }
  ADD_FAILURE() << "no comparison '" << name << "'";
  return 0;
}

std::int64_t devices_of(const Json& stage) { return std::ssize(list(stage, "devices")); }

struct UnlikeCase {
  const char* name;
  const char* model;
  const char* cluster;
  const char* options;
  std::vector<std::int64_t> devices;  // by stage
};
void PrintTo(const UnlikeCase& here, std::ostream* out) { *out << here.name; }

class UnlikeStages : public testing::TestWithParam<UnlikeCase> {};

TEST_P(UnlikeStages, ComputeWhatOneDeviceComputes) {
  const UnlikeCase& here = GetParam();
  const std::string file = scratch("plan.json");
  const Json planned = json_of(run_program(plan_command(here.model, here.cluster, std::string(here.options) + " --format json -o " + file)));
  const Json::Array& stages = list(planned, "stages");
  ASSERT_EQ(stages.size(), here.devices.size());
  std::int64_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    EXPECT_EQ(devices_of(stages[s]), here.devices[s]) << s;
    if (next == 8) next = 0;  // another chunk begins
    EXPECT_EQ(std::get<std::int64_t>(list(stages[s], "devices").front().value()), next) << s;
    next += here.devices[s];
  }
  verify_and_simulate(file, planned, 8);
}

INSTANTIATE_TEST_SUITE_P(All, UnlikeStages,
                         testing::Values(UnlikeCase{"Falling", "gpt2_deep_tiny", "slow8", "--set train.microbatches=4 --set 'search.stage_devices=\"4,2,1,1\"'", {4, 2, 1, 1}},
                                         UnlikeCase{"Rising", "bert_tiny", "slow8", "--set train.microbatches=4 --set 'search.stage_devices=\"2, 2, 4\"'", {2, 2, 4}},
                                         // T5's encoder goes to each stage of the decoder, over stages.
                                         UnlikeCase{"OverStages", "t5_tiny", "slow8", "--set train.microbatches=2 --set 'search.stage_devices=\"1,1,2,4\"'", {1, 1, 2, 4}},
                                         UnlikeCase{"InChunks", "gpt2_deep_tiny", "slow8", "--set train.microbatches=4 --set 'search.stage_devices=\"4,4\"' --set 'search.schedule=\"interleaved\"'", {4, 4, 4, 4}},
                                         UnlikeCase{"ChunksOfUnlikeStages", "gpt2_deep_tiny", "slow8", "--set train.microbatches=4 --set 'search.stage_devices=\"4,2,2\"' --set 'search.schedule=\"looped_bfs\"'", {4, 2, 2, 4, 2, 2}},
                                         UnlikeCase{"OnUnlikeDevices", "gpt2_deep_tiny", "unlike8", "--set train.microbatches=4 --set search.stages=2", {4, 4}},
                                         UnlikeCase{"OfOneKindSeveral", "gpt2_deep_tiny", "unlike8", "--set train.microbatches=4 --set 'search.stage_devices=\"4,2,2\"'", {4, 2, 2}}),
                         [](const auto& test) { return test.param.name; });

// More of the model lies where there is more to compute it with.
TEST(UnlikeDevices, LoadFollowsSpeed) {
  const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", "unlike8", "--format json --set train.microbatches=8 --set search.stages=2")));
  const double slow = step_beside(planned, "4 x slow alone"), quick = step_beside(planned, "4 x quick alone");
  EXPECT_GT(slow, 2 * quick);
  EXPECT_LT(real(planned, "step_seconds"), slow);
  const Json::Array& stages = list(planned, "stages");
  const double first = real(stages[0], "step_share_seconds"), second = real(stages[1], "step_share_seconds");
  EXPECT_LT(std::max(first, second), 1.5 * std::min(first, second));  // as balanced as blocks allow, though one stage is three times as fast
}

// Equal devices behind slow links are a part of their own: it computes its share, and exchanges less in its stage.
TEST(UnlikeDevices, ASlowRailIsAPart) {
  const std::string in_two = "--set train.microbatches=8 --set search.stages=2";
  const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", "rail8", in_two + " --format json")));
  const double fast = step_beside(planned, "4 x quick of 'quick4' alone");
  EXPECT_LT(fast, step_beside(planned, "4 x quick of 'quick4_slow_links' alone"));
  EXPECT_LT(real(planned, "step_seconds"), 0.8 * fast);
  EXPECT_THAT(run_program(plan_command("gpt2_deep_tiny", "rail8", in_two)).output, HasSubstr("on rail8 (4 x quick of 'quick4_slow_links' and 4 x quick of 'quick4'), 2 stages"));
  EXPECT_THAT(refusal("rail8", ""), HasSubstr("devices 0 to 7 of 'rail8' are unlike (4 x quick of 'quick4_slow_links' and 4 x quick of 'quick4')"));
  // Each is tried by itself.
  const Outcome tried = run_program(plan_command("gpt2_deep_tiny", "rail8", "--set train.microbatches=8 --set 'search.inter=\"grid\"' --set 'search.schedule=\"one_f_one_b\"'"));
  EXPECT_THAT(tried.output, AllOf(HasSubstr("Of its parts, each tried likewise: 4 x quick of 'quick4_slow_links' alone take "), HasSubstr("; 4 x quick of 'quick4' alone take ")));
}

// That others only slow a part down is said.
TEST(UnlikeDevices, AreLeftOutWhereTheyDoNotPay) {
  const Outcome outcome = run_program(plan_command("gpt2_deep_tiny", "unlike8", "--set train.microbatches=1 --set search.stages=2"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("(4 x slow and 4 x quick)"), HasSubstr("No plan of all devices was found that is as fast as 4 x quick alone ("), HasSubstr("of 4.00 GiB per device of 'slow4'"),
                                    HasSubstr("of 2.00 GiB per device of 'quick4'")));
}

TEST(UnlikeDevices, AFirstPartIsAClusterOfItsOwn) {
  const Outcome outcome = run_program(plan_command("gpt2_deep_tiny", "unlike8", "--devices 4"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("slow4 (4 x slow)"));
  EXPECT_THAT(refusal("unlike8", "--devices 6"), HasSubstr("6 devices of 'unlike8': devices beyond the first part are taken by whole parts, of 4 x slow and 4 x quick"));
  EXPECT_THAT(refusal("unlike8", "--devices 4,8"), HasSubstr("--devices with several numbers is of equal devices"));
}

TEST(UnlikeDevices, AreTriedByGrid) {
  const Outcome outcome = run_program(plan_command("gpt2_deep_tiny", "unlike8", "--set train.microbatches=4 --set 'search.inter=\"grid\"' --set 'search.schedule=\"one_f_one_b\"'"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("1 stage, 4 microbatches: stage 0: devices 0 to 7 of 'unlike8' are unlike (4 x slow and 4 x quick)"), HasSubstr("2 stages by one_f_one_b"), HasSubstr("4 stages by one_f_one_b")));
  // Each kind of device is searched for likewise: what its best plan takes is what a user gets on that part alone.
  const auto alone = [](const char* cluster) {
    const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", cluster, "--set train.microbatches=4 --set 'search.inter=\"grid\"' --set 'search.schedule=\"one_f_one_b\"' --format json")));
    return milliseconds(real(planned, "step_seconds"));
  };
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("4 x slow alone take " + alone("slow4") + " ("), HasSubstr("; 4 x quick alone take " + alone("quick4") + " (")));
}

TEST(UnlikeDevices, WhatIsNoStageIsRefusedByName) {
  EXPECT_THAT(refusal("unlike8", ""), HasSubstr("devices 0 to 7 of 'unlike8' are unlike (4 x slow and 4 x quick); a stage has devices of one kind"));
  EXPECT_THAT(refusal("unlike8", "--set 'search.stage_devices=\"2,4,2\"'"), HasSubstr("stage 1: devices 2 to 5 of 'unlike8' are unlike"));
  EXPECT_THAT(refusal("unlike8", "--set 'search.inter=\"joint\"'"), HasSubstr("inter = \"joint\" in [search] is of equal devices so far"));
  EXPECT_THAT(refusal("unlike8", "--set 'search.inter=\"pipedream\"'"), HasSubstr("inter = \"pipedream\" in [search] is of equal devices so far"));
  EXPECT_THAT(refusal("slow8", "--set 'search.stage_devices=\"4,2\"'"), HasSubstr("the stages have 6 devices together, and there are 8 devices of 'slow8'; each device is in one stage"));
  EXPECT_THAT(refusal("slow8", "--set 'search.stage_devices=\"1,2,5\"'"), HasSubstr("stage 1: devices 1 to 2 of 'slow8' are parts of several groups of level 'pair'"));
  EXPECT_THAT(refusal("slow8", "--set 'search.stage_devices=\"4,2,1,1\"' --set 'search.batch_axes=\"0\"'"), HasSubstr("names axis 0, but the mesh 1 has no axes"));
  EXPECT_THAT(refusal("slow8", "--set 'search.stage_devices=\"4,x\"'"), HasSubstr("\"stage_devices\" in [search]: '4,x' must be the number of devices of each stage, such as \"4,2,1,1\""));
  EXPECT_THAT(refusal("slow8", "--set search.stages=3 --set 'search.stage_devices=\"4,4\"'"), HasSubstr("leave \"stages\" out"));
  EXPECT_THAT(refusal("slow8", "--set 'search.inter=\"grid\"' --set 'search.stage_devices=\"4,4\"'"), HasSubstr("is what inter = \"grid\" decides"));
}

TEST(UnlikeDevices, PartsOfOneNameAreOfOneFile) {
  const std::string other = scratch("other.toml"), both = scratch("both.toml");
  std::ofstream(other) << "name = \"quick4\"\nnodes = 1\ndevices_per_node = 1\nreserved_bytes = \"0GiB\"\ndevice = \"" TEST_FOLDER "/quick_device.toml\"\n";
  std::ofstream(both) << "name = \"both\"\n[[part]]\ncluster = \"" TEST_FOLDER "/quick4.toml\"\n[[part]]\ncluster = \"other.toml\"\n"
                         "[[level]]\nname = \"network\"\ngroup = 5\nbandwidth = \"1GB/s\"\nlatency = \"10us\"\n";
  const Outcome outcome = run_program("plan " SOURCE_FOLDER "/tests/models/mlp_tiny.pt2 --cluster " + both);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.errors, HasSubstr("quick4.toml and other.toml both have the name 'quick4', and parts are told apart by their names; rename one"));
}

// PyTorch and frameworks give each stage as many ranks.
TEST(UnlikeDevices, BackendsThatKnowNoneSaySo) {
  const std::string file = scratch("plan.json"), unlike = scratch("unlike.json");
  EXPECT_EQ(run_program(plan_command("gpt2_deep_tiny", "slow8", "--set train.microbatches=4 --set 'search.stage_devices=\"4,2,2\"' -o " + file)).exit_code, 0);
  EXPECT_EQ(run_program(plan_command("gpt2_deep_tiny", "unlike8", "--set train.microbatches=4 --set search.stages=2 -o " + unlike)).exit_code, 0);
  EXPECT_THAT(run_program("emit " + file + " --backend torch -o " + scratch("out")).errors, HasSubstr("stage 0 has 4 devices, and stage 1 has 2, and PyTorch's pipelines give each stage as many ranks"));
  EXPECT_THAT(run_program("emit " + file + " --backend megatron -o " + scratch("out")).errors, HasSubstr("stage 0 has 4 devices, and stage 1 has 2, and a framework gives each as many"));
  EXPECT_THAT(run_program("emit " + unlike + " --backend torchtitan -o " + scratch("out")).errors, HasSubstr("'unlike8' has 4 x slow and 4 x quick, and a framework splits a model as if all devices were alike"));
}

}  // namespace
}  // namespace meshwright
