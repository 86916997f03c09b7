// [search] inter = "alpa" and "dapple": a model in the stages that these choose by the step that they make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <ostream>
#include <vector>

#include "folder_test.h"
#include "planned_pipeline.h"
#include "printed_json.h"
#include "quick_search.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::json_of;
using test::by_inter;
using test::list;
using test::real;
using test::run_program;
using test::tiny_on;
using test::verify_and_simulate;
using testing::AllOf;
using testing::HasSubstr;

class PlacedSteps : public test::FolderTest {
 protected:
  static std::string refused(const std::string& command, int exit_code = 2) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, exit_code) << command;
    return outcome.errors;
  }
  static std::string tiny(const std::string& options) { return "plan " + tiny_on("gpt2_tiny", "slow4_far") + options; }
};

struct StepsCase {
  const char* name;
  const char* inter;
  const char* model;
  const char* cluster;
  std::vector<std::size_t> devices;  // of each stage
  const char* options = "";
};
void PrintTo(const StepsCase& here, std::ostream* out) { *out << here.name; }

class StepsOfModels : public PlacedSteps, public testing::WithParamInterface<StepsCase> {};

// The stages are the solver's, all devices have one, and the plan computes what one device computes, in what was predicted to the byte.
TEST_P(StepsOfModels, ComputeWhatOneDeviceComputes) {
  const StepsCase& here = GetParam();
  const std::string file = path("plan.json"), again = path("again.json"), command = "plan " + tiny_on(here.model, here.cluster) + by_inter(here.inter) + here.options + " -o ";
  const Json planned = json_of(run_program(command + file + " --format json"));
  ASSERT_EQ(run_program(command + again).exit_code, 0);
  EXPECT_EQ(read(file), read(again));
  EXPECT_EQ(real(*planned.find("stage_search")->find("chosen"), "step_seconds"), real(planned, "step_seconds"));
  EXPECT_THAT(read(file), AllOf(HasSubstr("chosen by " + std::string(here.inter) + ", take "), HasSubstr("Stages by " + std::string(here.inter) + ": optimal for its own problem"), HasSubstr(" s for a step of ")));
  if (here.devices.size() == 1) {
    EXPECT_EQ(planned.find("stages"), nullptr);
    EXPECT_TRUE(std::get<bool>(json_of(run_program("verify " + file + " --format json")).find("equal")->value()));
    return;
  }
  std::vector<std::size_t> devices;
  for (const Json& stage : list(planned, "stages")) devices.push_back(list(stage, "devices").size());
  EXPECT_EQ(devices, here.devices);
  verify_and_simulate(file, planned, static_cast<std::int64_t>(std::reduce(devices.begin(), devices.end())));
}

INSTANTIATE_TEST_SUITE_P(Solvers, StepsOfModels, testing::Values(StepsCase{"AlpaFour", "alpa", "gpt2_tiny", "slow4_far", {2, 2}}, StepsCase{"AlpaUnlikeStages", "alpa", "gpt2_deep_tiny", "slow8_far", {2, 2, 1, 2, 1}},
                                         StepsCase{"AlpaOneStage", "alpa", "gpt2_deep_tiny", "slow8", {8}},
                                         StepsCase{"AlpaTight", "alpa", "gpt2_tiny", "slow4_far", {2, 2}, "--memory-budget 172KiB --set 'search.recompute=\"free\"' "},
                                         StepsCase{"AlpaPutTogether", "alpa", "gpt2_deep_tiny", "slow8_far", {2, 2, 1, 2, 1}, "--set inter.joint.most_searched_ops=1 "},
                                         StepsCase{"DappleFour", "dapple", "gpt2_tiny", "slow4_far", {1, 1, 1, 1}}, StepsCase{"DappleUnlikeStages", "dapple", "gpt2_tiny", "slow8_far", {2, 2, 1, 2, 1}},
                                         StepsCase{"DappleReplicas", "dapple", "t5_tiny", "slow8_far", {1, 2, 2, 2, 1}}, StepsCase{"DappleOneStage", "dapple", "gpt2_tiny", "slow8", {8}},
                                         StepsCase{"DappleTight", "dapple", "gpt2_tiny", "slow4_far", {1, 1, 1, 1}, "--memory-budget 210KiB --set 'search.recompute=\"free\"' "}), [](const auto& info) { return info.param.name; });

TEST_F(PlacedSteps, AreComparedWithAJointSearch) {
  const Json table = json_of(run_program("compare " + tiny_on("gpt2_tiny", "slow4_far") + "--inter joint,alpa,dapple --format json"));
  const Json::Array& rows = list(table, "inter");
  ASSERT_EQ(rows.size(), 3U);
  const char* inters[] = {"joint", "alpa", "dapple"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::get<std::string>(rows[i].find("inter")->value()), inters[i]);
    EXPECT_TRUE(std::get<bool>(rows[i].find("verified")->value())) << inters[i];
    EXPECT_EQ(std::holds_alternative<std::nullptr_t>(rows[i].find("step_lower_bound_seconds")->value()), i > 0) << inters[i];
    if (i == 0) continue;
    EXPECT_EQ(real(rows[i], "step_seconds"), real(json_of(run_program(tiny(by_inter(inters[i]) + "--format json"))), "step_seconds")) << inters[i];
  }
}

TEST_F(PlacedSteps, MicrobatchesThatAreGivenStay) {
  const Json planned = json_of(run_program(tiny(by_inter("alpa") + "--set train.microbatches=2 --format json")));
  for (const Json& trial : list(*planned.find("stage_search"), "combinations")) EXPECT_EQ(integer(trial, "microbatches"), 2);
}

// Of eight near devices Alpa makes a mesh of two axes, over one of which weights are sharded; DAPPLE's replicas are on one axis.
TEST_F(PlacedSteps, DapplesStagesAreReplicatedAlone) {
  const auto mesh = [](const char* id) { return std::get<std::string>(json_of(run_program("plan " + tiny_on("gpt2_tiny", "slow8") + by_inter(id) + "--format json")).find("mesh")->value()); };
  EXPECT_EQ(mesh("alpa"), "2x4");
  EXPECT_EQ(mesh("dapple"), "8");
}

// Where stages do not fit when they are planned, the solver is asked for such as hold less.
TEST_F(PlacedSteps, AreAskedForAgainWithLessMemory) {
  const Json planned = json_of(run_program(tiny(by_inter("alpa") + "--memory-budget 172KiB --set 'search.recompute=\"free\"' --format json")));
  const Json::Array& trials = list(*planned.find("stage_search"), "combinations");
  ASSERT_GE(trials.size(), 2U);
  EXPECT_EQ(integer(trials[trials.size() - 2], "stages"), 3);
  EXPECT_EQ(std::get<std::string>(trials[trials.size() - 2].find("state")->value()), "does not fit");
  EXPECT_EQ(std::get<std::string>(trials.back().find("state")->value()), "planned");
}

TEST_F(PlacedSteps, RefuseByName) {
  for (const char* id : {"alpa", "dapple"}) {
    const std::string inter = id;
    EXPECT_THAT(refused(tiny(by_inter(id) + "--set search.stages=2")), HasSubstr("\"stages\" in [search] is what inter = \"" + inter + "\" in [search] decides"));
    EXPECT_THAT(refused(tiny(by_inter(id) + "--mesh 4")), HasSubstr("the mesh of each stage is what inter = \"" + inter + "\" in [search] decides"));
    EXPECT_THAT(refused(tiny(by_inter(id) + "--memory-budget 1KiB"), 3), HasSubstr("on each device; a device has"));
  }
  EXPECT_THAT(refused(tiny(by_inter("dapple") + "--set 'search.schedule=\"interleaved\"'")), HasSubstr("which cuts each stage into 2 chunks"));
  EXPECT_THAT(refused("plan " + tiny_on("gpt2_tiny", "unlike8") + by_inter("alpa")), HasSubstr("inter = \"alpa\" in [search] is of equal devices so far"));
}

}  // namespace
}  // namespace meshwright
