// [search] inter = "pipedream", "max_load", "piper", "reinforce", or a third party's plugin: a model in the stages that a solver of placement problems chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>

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

class PlacedStages : public test::FolderTest {
 protected:
  static std::string refusal(const std::string& command, int exit_code = 2) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, exit_code) << command;
    return outcome.errors;
  }
  static std::string small(const std::string& options) { return "plan " + tiny_on("gpt2_tiny", "slow4_far") + options; }
};

std::int64_t ranks_of(const Json& planned) {
  std::int64_t ranks = 0;
  for (const Json& stage : list(planned, "stages")) ranks += std::ssize(list(stage, "devices"));
  return ranks;
}

struct PlacedCase {
  const char* name;
  const char* inter;
  const char* model;
  const char* cluster;
  std::int64_t devices;
  std::size_t stages;
  const char* options = "";
};
void PrintTo(const PlacedCase& here, std::ostream* out) { *out << here.name; }

class Placed : public PlacedStages, public testing::WithParamInterface<PlacedCase> {};

// The stages are the solver's, all devices have one, and the plan computes what one device computes, in what was predicted to the byte.
TEST_P(Placed, ComputesWhatOneDeviceComputes) {
  const PlacedCase& here = GetParam();
  const std::string file = path("plan.json"), again = path("again.json"), command = "plan " + tiny_on(here.model, here.cluster) + by_inter(here.inter) + here.options + " -o ";
  const Json planned = json_of(run_program(command + file + " --format json"));
  ASSERT_EQ(run_program(command + again).exit_code, 0);
  EXPECT_EQ(read(file), read(again));
  EXPECT_GT(real(planned, "step_seconds"), 0);
  EXPECT_EQ(real(*planned.find("stage_search")->find("chosen"), "step_seconds"), real(planned, "step_seconds"));
  const std::string by = here.inter, status = by == "reinforce" ? "heuristic" : "optimal";
  EXPECT_THAT(read(file), AllOf(HasSubstr("chosen by " + by + ", take "), HasSubstr("Stages by " + by + ": " + status + " for its own problem")));
  for (const Json& trial : list(*planned.find("stage_search"), "combinations")) {
    if (std::get<std::string>(trial.find("state")->value()) == "planned") { EXPECT_EQ(real(trial, "step_lower_bound_seconds"), 0); }  // its optimum is of another problem
  }
  if (here.stages > 1) {
    ASSERT_EQ(list(planned, "stages").size(), here.stages);
    EXPECT_EQ(ranks_of(planned), here.devices);
    verify_and_simulate(file, planned, here.devices);
    return;
  }
  EXPECT_EQ(planned.find("stages"), nullptr);
  EXPECT_TRUE(std::get<bool>(json_of(run_program("verify " + file + " --format json")).find("equal")->value()));
}

INSTANTIATE_TEST_SUITE_P(Solvers, Placed,
                         testing::Values(PlacedCase{"PipeDreamFour", "pipedream", "gpt2_deep_tiny", "slow4_far", 4, 4}, PlacedCase{"PipeDreamEight", "pipedream", "gpt2_deep_tiny", "slow8_far", 8, 8},
                                         PlacedCase{"PipeDreamReplicas", "pipedream", "t5_tiny", "slow8_far", 8, 4}, PlacedCase{"PipeDreamOneStage", "pipedream", "gpt2_deep_tiny", "slow8", 8, 1},
                                         PlacedCase{"MaxLoadFour", "max_load", "gpt2_deep_tiny", "slow4_far", 4, 4}, PlacedCase{"MaxLoadEight", "max_load", "gpt2_deep_tiny", "slow8_far", 8, 8},
                                         PlacedCase{"ReinforceFour", "reinforce", "gpt2_deep_tiny", "slow4_far", 4, 4}, PlacedCase{"ReinforceEight", "reinforce", "gpt2_deep_tiny", "slow8_far", 8, 8},
                                         PlacedCase{"ReinforceSeed", "reinforce", "t5_tiny", "slow4_far", 4, 4, "--set search.reinforce.seed=5 --set search.reinforce.steps=50 "},
                                         PlacedCase{"GalvatronFour", "galvatron", "gpt2_deep_tiny", "slow4_far", 4, 1}, PlacedCase{"GalvatronEight", "galvatron", "gpt2_tiny", "slow8", 8, 1},
                                         PlacedCase{"GalvatronStages", "galvatron", "gpt2_deep_tiny", "slow4_far", 4, 2, "--memory-budget 400KiB --set train.microbatches=8 "},
                                         PlacedCase{"GalvatronAgain", "galvatron", "gpt2_tiny", "slow4_far", 4, 2, "--memory-budget 150KiB --set 'search.recompute=\"blocks\"' "},
                                         PlacedCase{"PiperFour", "piper", "gpt2_deep_tiny", "slow4_far", 4, 3}, PlacedCase{"PiperEight", "piper", "gpt2_deep_tiny", "slow8_far", 8, 5},
                                         PlacedCase{"PiperOneStage", "piper", "gpt2_deep_tiny", "slow8", 8, 1},
                                         PlacedCase{"PiperTight", "piper", "gpt2_tiny", "slow4_far", 4, 2, "--memory-budget 180KiB --set 'search.recompute=\"blocks\"' "},
                                         PlacedCase{"PiperAllAgain", "piper", "gpt2_tiny", "slow4_far", 4, 3, "--memory-budget 220KiB --set 'search.recompute=\"all\"' "}),
                         [](const auto& info) { return info.param.name; });

TEST_F(PlacedStages, AreComparedWithAJointSearch) {
  const Json table = json_of(run_program("compare " + tiny_on("gpt2_tiny", "slow4_far") + "--inter joint,pipedream,piper,max_load --format json"));
  const Json::Array& rows = list(table, "inter");
  ASSERT_EQ(rows.size(), 4U);
  const char* inters[] = {"joint", "pipedream", "piper", "max_load"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::get<std::string>(rows[i].find("inter")->value()), inters[i]);
    EXPECT_TRUE(std::get<bool>(rows[i].find("verified")->value())) << inters[i];
    EXPECT_EQ(std::holds_alternative<std::nullptr_t>(rows[i].find("step_lower_bound_seconds")->value()), i > 0) << inters[i];
    if (i == 0) continue;
    EXPECT_EQ(real(rows[i], "step_seconds"), real(json_of(run_program(small(by_inter(inters[i]) + "--format json"))), "step_seconds")) << inters[i];
  }
}

// Six stages are as good as eight for max_load, which leaves two devices idle: they are used as far as that costs nothing, and a plan says so.
TEST_F(PlacedStages, IdleDevicesAreUsed) {
  const std::string file = path("plan.json");
  const Json planned = json_of(run_program("plan " + tiny_on("gpt2_deep_tiny", "slow8_far") + by_inter("max_load") + "--format json -o " + file));
  EXPECT_EQ(ranks_of(planned), 8);
  EXPECT_THAT(read(file), HasSubstr("it leaves 2 devices idle, for which stages were cut in two"));
}

TEST_F(PlacedStages, WhatIsGivenStays) {
  const Json planned = json_of(run_program(small(by_inter("piper") + "--set train.microbatches=2 --set 'search.schedule=\"gpipe\"' --format json")));
  for (const Json& trial : list(*planned.find("stage_search"), "combinations")) {
    if (std::get<std::string>(trial.find("state")->value()) != "planned") continue;
    EXPECT_EQ(integer(trial, "microbatches"), 2);
    EXPECT_EQ(std::get<std::string>(trial.find("schedule")->value()), "gpipe");
  }
  EXPECT_EQ(integer(*planned.find("stage_search")->find("chosen"), "microbatches"), 2);
}

// Layers of one stage have unlike layouts, and where memory binds some of them run again.
TEST_F(PlacedStages, EntriesOfAMenuAreMixed) {
  const std::string file = path("plan.json");
  ASSERT_EQ(run_program(small(by_inter("galvatron") + "-o " + file)).exit_code, 0);
  EXPECT_THAT(read(file), AllOf(HasSubstr("tp 4 for 1 part, sdp 2 x tp 2 for "), HasSubstr(" s for a step of 1 microbatch")));
  ASSERT_EQ(run_program(small(by_inter("galvatron") + "--memory-budget 150KiB --set 'search.recompute=\"blocks\"' -o " + file)).exit_code, 0);
  EXPECT_THAT(read(file), HasSubstr("tp 2 for 5 parts, tp 2, run again for 2 parts"));
}

TEST_F(PlacedStages, RefuseByName) {
  EXPECT_THAT(refusal(small(by_inter("pipedraem"))), HasSubstr("\"inter\" in [search] can't be \"pipedraem\"; did you mean \"pipedream\"?"));
  EXPECT_THAT(refusal(small(by_inter("nobody") + "--set train.microbatches=2")), HasSubstr("known are \"none\", \"grid\", \"joint\", \"manual\", "));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--set search.stages=2")), HasSubstr("\"stages\" in [search] is what inter = \"piper\" in [search] decides"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--mesh 4")), HasSubstr("the mesh of each stage is what inter = \"piper\" in [search] decides"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--set search.batch_axes=0")), HasSubstr("\"batch_axes\" in [search] is what"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--set search.expert_axes=0")), HasSubstr("\"expert_axes\" in [search] is what"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--set 'pins.\"inner.transformer.h.1\"=\"stage 1\"'")), HasSubstr("the stage of a module is what"));
  EXPECT_THAT(refusal(small(by_inter("galvatron") + "--set 'search.weights=\"sharded\"'")), HasSubstr("\"weights\" in [search] is what inter = \"galvatron\" in [search] decides for each layer"));
  EXPECT_THAT(refusal(small(by_inter("galvatron") + "--memory-budget 20KiB"), 3), HasSubstr("1 microbatch: no stages fit: no entries of the menus for 1, 2, 4 stages"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--top 2")), HasSubstr("inter = \"piper\" in [search] chooses their number"));
  EXPECT_THAT(refusal(small(by_inter("pipedream") + "--set 'search.schedule=\"interleaved\"'")), AllOf(HasSubstr("none of its stages can be planned:\n  "), HasSubstr("which cuts each stage into 2 chunks")));
  EXPECT_THAT(refusal("plan " + tiny_on("t5_tiny", "slow8") + by_inter("pipedream")), HasSubstr("its stages have 3, 5 replicas, which can't all share a microbatch of a batch of 8 evenly"));
  EXPECT_THAT(refusal(small(by_inter("pipedream") + "--memory-budget 100KiB"), 3), HasSubstr("stage 0 of 3: no plan fits into 100 KiB per device"));
  EXPECT_THAT(refusal(small(by_inter("max_load") + "--memory-budget 100KiB"), 3), HasSubstr("1 microbatch: no stages fit: 4 accelerators of 102400 bytes"));
  EXPECT_THAT(refusal(small(by_inter("reinforce") + "--memory-budget 100KiB"), 3), HasSubstr("1 microbatch: no stages fit: 4 accelerators of 102400 bytes"));
  EXPECT_THAT(refusal(small(by_inter("reinforce") + "--set search.reinforce.steps=0")), HasSubstr("steps must be at least 1, not 0"));
  EXPECT_THAT(refusal(small(by_inter("piper") + "--memory-budget 1KiB"), 3), HasSubstr("on each device; a device has 1024 bytes"));
}

// --- a third party's ---

TEST_F(PlacedStages, AThirdPartysPluginIsOneMore) {
  const std::string with = "--set 'plugins.paths=[\"" FIXTURE_FOLDER "\"]' ";
  const std::string file = path("plan.json");
  const Json planned = json_of(run_program(small(with + by_inter("halves") + "--format json -o " + file)));
  ASSERT_EQ(list(planned, "stages").size(), 2U);
  for (const Json& stage : list(planned, "stages")) EXPECT_EQ(list(stage, "devices").size(), 2U);
  EXPECT_THAT(read(file), HasSubstr("Stages by halves: heuristic for its own problem (two halves)"));
  verify_and_simulate(file, planned, 4);  // for which the plugin is no longer needed
  EXPECT_THAT(refusal(small(with + by_inter("puzzled"))), HasSubstr("inter = \"puzzled\" in [search]: that solver knows none of the problems that are made of a model"));
}

}  // namespace
}  // namespace meshwright
