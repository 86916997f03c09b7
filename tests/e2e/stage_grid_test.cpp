// [search] inter = "grid", "joint" and "manual": the number of stages is chosen by trying or by a joint search, or given as degrees of parallelism.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "folder_test.h"
#include "planned_pipeline.h"
#include "planning.h"
#include "printed_json.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using host::PlanOptions;
using host::PlanOutcome;
using test::Outcome;
using test::integer;
using test::json_of;
using test::list;
using test::real;
using test::run_program;
using test::verify_and_simulate;
using testing::AllOf;
using testing::HasSubstr;

double step_of(const PlanOutcome& outcome) { return outcome.plan ? outcome.plan->step_seconds : outcome.pipeline->step_seconds; }

PlanOptions options_on(const std::string& model, const std::string& cluster, const std::vector<std::string>& set) {
  PlanOptions options;
  options.model = SOURCE_FOLDER "/tests/models/" + model + ".pt2";
  options.cluster = TEST_FOLDER "/" + cluster + ".toml";
  options.set = {"search.step_rounds=0", "search.sure=false"};
  options.set.insert(options.set.end(), set.begin(), set.end());
  options.usual = false;
  return options;
}

// By itself, as a user would ask for it; without a plan where nothing fits.
PlanOutcome plan_of(const StageChoice& choice, const std::string& model, const std::string& cluster, const std::vector<std::string>& set) {
  PlanOptions options = options_on(model, cluster, set);
  options.set.push_back("search.stages=" + std::to_string(choice.stages));
  options.set.push_back("train.microbatches=" + std::to_string(choice.microbatches));
  if (!choice.schedule.empty()) options.set.push_back("search.schedule=\"" + choice.schedule + "\"");
  return test::plan(options).value();
}

struct GridCase {
  const char* name;
  const char* model;
  const char* cluster;
  std::uint32_t stages;  // the best number
  std::vector<std::string> set = {};
};
void PrintTo(const GridCase& here, std::ostream* out) { *out << here.name; }

class Grid : public testing::TestWithParam<GridCase> {};

// What each combination takes by itself is no less than its floor, what was planned is what it takes, and nothing takes less than what was chosen.
TEST_P(Grid, ChoosesTheLeastOfAllThatCanBeAskedFor) {
  const GridCase& here = GetParam();
  PlanOptions options = options_on(here.model, here.cluster, here.set);
  options.set.emplace_back("search.inter=\"grid\"");
  const PlanOutcome outcome = test::plan(options).value();
  ASSERT_TRUE(outcome.plan || outcome.pipeline) << outcome.refusal;
  const double chosen = step_of(outcome);
  const std::vector<StageTrial>& trials = outcome.stage_search->trials;
  std::size_t skipped = 0;
  for (const StageTrial& trial : trials) {
    if (trial.state == TrialState::refused) continue;
    const PlanOutcome alone = plan_of(trial.choice, here.model, here.cluster, here.set);
    const bool fits = alone.plan || alone.pipeline;
    if (trial.state == TrialState::skipped) {
      ++skipped;
    } else {
      EXPECT_EQ(trial.state == TrialState::planned, fits) << to_string(trial.choice);
    }
    if (!fits) continue;
    EXPECT_GE(step_of(alone), chosen) << to_string(trial.choice);
    EXPECT_GE(step_of(alone), trial.floor_seconds) << to_string(trial.choice);
    if (trial.state == TrialState::planned) { EXPECT_EQ(step_of(alone), trial.step_seconds) << to_string(trial.choice); }
  }
  EXPECT_GT(skipped, 0U);
  const StageTrial* best = shortest_of(trials);
  EXPECT_EQ(best->step_seconds, chosen);
  EXPECT_EQ(best->choice.stages, here.stages);
  EXPECT_EQ(outcome.pipeline.has_value(), here.stages > 1);
}

INSTANTIATE_TEST_SUITE_P(Models, Grid,
                         testing::Values(GridCase{"FourFar", "gpt2_tiny", "slow4_far", 2}, GridCase{"EightNear", "gpt2_tiny", "slow8", 1}, GridCase{"EightFar", "gpt2_tiny", "slow8_far", 4},
                                         GridCase{"FourTight", "gpt2_tiny", "slow4_far", 1, {"search.memory_budget=\"140KiB\""}}),
                         [](const auto& info) { return info.param.name; });

class StageGridCommand : public test::FolderTest {
 protected:
  static std::string command(const std::string& options) {
    return "plan " SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2 --cluster " TEST_FOLDER "/slow4_far.toml --set search.step_rounds=0 --set search.sure=false " + options;
  }
  static std::string grid(const std::string& options) { return command("--set 'search.inter=\"grid\"' " + options); }
  static std::string joint(const std::string& options) { return command("--set 'search.inter=\"joint\"' " + options); }
  static std::string manual(const std::string& options) { return command("--set 'search.inter=\"manual\"' " + options); }
  static std::string refusal(const std::string& command, int exit_code = 2) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, exit_code) << command;
    return outcome.errors;
  }
};

TEST_F(StageGridCommand, ItsPlanComputesWhatOneDeviceComputesAndSaysWhy) {
  const std::string file = path("plan.json");
  const Json planned = json_of(run_program(grid("--format json -o " + file)));
  verify_and_simulate(file, planned, 4);
  const Json& search = *planned.find("stage_search");
  EXPECT_EQ(real(*search.find("chosen"), "step_seconds"), real(planned, "step_seconds"));
  EXPECT_LE(real(search, "step_lower_bound_seconds"), real(planned, "step_seconds"));
  const Json::Array& best = list(search, "by_stages");
  ASSERT_EQ(best.size(), 3U);
  for (std::size_t i = 0; i < best.size(); ++i) {
    EXPECT_EQ(integer(best[i], "stages"), std::int64_t{1} << i);
    EXPECT_GE(real(best[i], "step_seconds"), real(planned, "step_seconds"));
  }
  EXPECT_GT(list(search, "combinations").size(), 20U);
  EXPECT_FALSE(list(search, "not_considered").empty());
  EXPECT_THAT(read(file), AllOf(HasSubstr("chosen by trying, take "), HasSubstr("The best found of other numbers of stages: 1 stage, ")));
}

TEST_F(StageGridCommand, TheSameInputGivesTheSameBytes) {
  const std::string first = path("first.json"), second = path("second.json");
  const Outcome outcome = run_program(grid("-o " + first));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("The best of each number of stages (* won)"), testing::ContainsRegex("skipped [1-9][0-9]*: no plan of theirs has a shorter step than the best"), HasSubstr("Not considered:")));
  ASSERT_EQ(run_program(grid("-o " + second)).exit_code, 0);
  EXPECT_EQ(read(first), read(second));
}

TEST_F(StageGridCommand, AJointPlanComputesWhatOneDeviceComputesAndSaysWhy) {
  const std::string file = path("plan.json"), again = path("again.json");
  const Json planned = json_of(run_program(joint("--format json -o " + file)));
  verify_and_simulate(file, planned, 4);
  ASSERT_EQ(run_program(joint("-o " + again)).exit_code, 0);
  EXPECT_EQ(read(file), read(again));
  const Json& search = *planned.find("stage_search");
  EXPECT_EQ(real(*search.find("chosen"), "step_seconds"), real(planned, "step_seconds"));
  EXPECT_LE(real(search, "step_lower_bound_seconds"), real(planned, "step_seconds"));
  const Json::Array& best = list(search, "by_stages");
  ASSERT_EQ(best.size(), 4U);  // 3 have unlike numbers of devices
  for (const Json& row : best) EXPECT_GT(real(row, "estimated_step_seconds"), 0);
  for (const Json& trial : list(search, "combinations")) {
    if (std::get<std::string>(trial.find("state")->value()) == "planned") { EXPECT_LE(real(trial, "step_lower_bound_seconds"), real(trial, "step_seconds")); }
  }
  EXPECT_THAT(read(file), AllOf(HasSubstr("chosen by a joint search, take "), HasSubstr("The best found of other numbers of stages: ")));
}

// Wherever the model's blocks are cut in two, by each schedule, the plan that a user gets by asking for that takes no less.
TEST_F(StageGridCommand, AJointPlanIsNoSlowerThanAnyCutOfTheBlocks) {
  const std::string model = "plan " SOURCE_FOLDER "/tests/models/gpt2_deep_tiny.pt2 --cluster " TEST_FOLDER "/slow8_far.toml --set search.step_rounds=0 --set search.sure=false --set search.stages=2 --set train.microbatches=4 --format json ";
  const double chosen = real(json_of(run_program(model + "--set 'search.inter=\"joint\"'")), "step_seconds");
  int cuts = 0;
  for (const char* schedule : {"gpipe", "one_f_one_b", "zb_h1"}) {
    for (const char* block : {"h.1", "h.2", "h.3"}) {
      const std::string pins = std::string("--set 'pins.\"inner.transformer.") + block + "\"=\"stage 1\"' --set 'pins.\"inner.transformer.wte\"=\"stage 0\"' ";
      const Outcome outcome = run_program(model + pins + "--set 'search.schedule=\"" + schedule + "\"'");
      if (outcome.exit_code != 0) continue;
      ++cuts;
      EXPECT_GE(real(json_of(outcome), "step_seconds"), chosen) << schedule << " " << block;
    }
  }
  EXPECT_EQ(cuts, 9);
}

// Three stages of eight devices have unlike numbers of them: wherever the model's blocks are cut, and whichever devices each stage has, no plan takes less; and the plan computes what one device computes.
TEST_F(StageGridCommand, AJointPlanChoosesTheDevicesOfEachStage) {
  const std::string model = "plan " SOURCE_FOLDER "/tests/models/gpt2_deep_tiny.pt2 --cluster " TEST_FOLDER "/slow8_far.toml --set search.step_rounds=0 --set search.sure=false --set 'search.schedule=\"one_f_one_b\"' "
                            "--set train.microbatches=4 --format json ";
  const std::string file = path("plan.json");
  const Json planned = json_of(run_program(model + "--set 'search.inter=\"joint\"' --set search.stages=3 -o " + file));
  const Json& search = *planned.find("stage_search");
  const Json& chosen = *search.find("chosen");
  ASSERT_EQ(list(chosen, "stage_devices").size(), 3U);
  EXPECT_GT(real(chosen, "step_lower_bound_seconds"), 0);
  EXPECT_LE(real(chosen, "step_lower_bound_seconds"), real(planned, "step_seconds"));
  EXPECT_THAT(read(file), HasSubstr(" devices by one_f_one_b, 4 microbatches, chosen by a joint search"));
  verify_and_simulate(file, planned, 8);
  const auto in_stage = [](int block, int stage) { return "--set 'pins.\"inner.transformer.h." + std::to_string(block) + "\"=\"stage " + std::to_string(stage) + "\"' "; };
  int cuts = 0;
  for (int first = 1; first < 4; ++first) {
    for (int second = first + 1; second < 5; ++second) {
      for (const char* devices : {"4,2,2", "2,4,2", "2,2,4"}) {
        const std::string pins = in_stage(first - 1, 0) + in_stage(first, 1) + in_stage(second - 1, 1) + in_stage(second, 2);
        const Json other = json_of(run_program(model + pins + "--set 'search.stage_devices=\"" + devices + "\"'"));
        ++cuts;
        EXPECT_GE(real(other, "step_seconds"), real(planned, "step_seconds")) << first << " " << second << " " << devices;
      }
    }
  }
  EXPECT_EQ(cuts, 18);
}

// With less memory than the fastest plan holds it is another one, which fits and runs ops again.
TEST_F(StageGridCommand, AJointPlanFitsTheBudget) {
  const Json free = json_of(run_program(joint("--format json")));
  const Json tight = json_of(run_program(joint("--memory-budget 150KiB --set 'search.recompute=\"free\"' --format json -o " + path("tight.json"))));
  EXPECT_LE(integer(*tight.find("stage_search")->find("chosen"), "peak_bytes"), 150 * 1024);
  EXPECT_GT(real(tight, "step_seconds"), real(free, "step_seconds"));
  verify_and_simulate(path("tight.json"), tight, 4);
  EXPECT_THAT(refusal(joint("--memory-budget 1KiB"), 3), AllOf(HasSubstr("no plan fits, with any number of stages that was tried"), HasSubstr("\n  2 stages by ")));
}

struct AssembledCase {
  const char* name;
  const char* options;
  bool one_stage = false;
};
void PrintTo(const AssembledCase& here, std::ostream* out) { *out << here.name; }

class Assembled : public StageGridCommand, public testing::WithParamInterface<AssembledCase> {};

// Stages that are put together of what two of the blocks do, as those of a large model are, compute what one device computes, in what was predicted to the byte.
TEST_P(Assembled, ComputesWhatOneDeviceComputes) {
  const std::string file = path("assembled.json");
  const Json planned = json_of(run_program("plan " SOURCE_FOLDER "/tests/models/gpt2_deep_tiny.pt2 --cluster " TEST_FOLDER
                                           "/slow8_far.toml --set search.step_rounds=0 --set search.sure=false --set 'search.inter=\"joint\"' --set inter.joint.most_searched_ops=0 --format json -o " +
                                           file + " " + GetParam().options));
  EXPECT_THAT(read(file), HasSubstr("equal parts of the model as a few of them were searched for"));
  if (!GetParam().one_stage) return verify_and_simulate(file, planned, 8);
  const Json verified = json_of(run_program("verify " + file + " --format json"));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  EXPECT_EQ(integer(verified, "peak_bytes_measured"), integer(planned, "peak_bytes"));
}

INSTANTIATE_TEST_SUITE_P(Plans, Assembled,
                         testing::Values(AssembledCase{"Free", ""}, AssembledCase{"OneStage", "--set search.stages=1 --set train.microbatches=2", true}, AssembledCase{"FourStages", "--set search.stages=4 --set train.microbatches=8"},
                                         AssembledCase{"Chunks", "--set search.stages=2 --set train.microbatches=4 --set 'search.schedule=\"interleaved\"'"},
                                         AssembledCase{"TwoParts", "--set search.stages=2 --set train.microbatches=8 --set 'search.schedule=\"zb_v\"'"},
                                         AssembledCase{"Tight", "--set search.stages=2 --set train.microbatches=4 --memory-budget 250KiB --set 'search.recompute=\"free\"'"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(StageGridCommand, AJointSearchRefusesByName) {
  EXPECT_THAT(refusal(joint("--mesh 2xz")), HasSubstr("mesh '2xz'"));
  EXPECT_THAT(refusal(joint("--set 'pins.\"inner.transformer.h.1\"=\"stage 1\"'")), HasSubstr("chooses cuts by what few layers take"));
  EXPECT_THAT(refusal(joint("--set 'search.batch_axes=\"5\"'")), HasSubstr("\"batch_axes\" in [search] names axis 5"));
  EXPECT_THAT(refusal(joint("--set inter.joint.most_searched_ops=-1")), HasSubstr("must be at least 0"));
}

TEST_F(StageGridCommand, WhatIsGivenStaysInAJointSearch) {
  const Json given = json_of(run_program(joint("--set search.stages=2 --set 'search.schedule=\"gpipe\"' --set train.microbatches=4 --format json")));
  ASSERT_EQ(list(*given.find("stage_search"), "combinations").size(), 1U);
  const Json alone = json_of(run_program(command("--set search.stages=2 --set 'search.schedule=\"gpipe\"' --set train.microbatches=4 --format json")));
  EXPECT_LE(real(given, "step_seconds"), real(alone, "step_seconds"));
  EXPECT_THAT(refusal(joint("--top 2")), HasSubstr("inter = \"joint\" in [search] chooses their number"));
}

TEST_F(StageGridCommand, WhatIsGivenStays) {
  const Json given = json_of(run_program(grid("--set search.stages=2 --set 'search.schedule=\"gpipe\"' --set train.microbatches=4 --format json")));
  const Json::Array& combinations = list(*given.find("stage_search"), "combinations");
  ASSERT_EQ(combinations.size(), 1U);
  const Json alone = json_of(run_program(command("--set search.stages=2 --set 'search.schedule=\"gpipe\"' --set train.microbatches=4 --format json")));
  EXPECT_EQ(real(given, "step_seconds"), real(alone, "step_seconds"));
}

TEST_F(StageGridCommand, SaysWhyNothingFits) {
  EXPECT_THAT(refusal(grid("--memory-budget 1KiB"), 3),
              AllOf(HasSubstr("no plan fits, with any number of stages that was tried"), HasSubstr("\n  1 stage, "), HasSubstr("\n  2 stages by "), HasSubstr("\n  4 stages by "), testing::Not(HasSubstr("no single change"))));
}

TEST_F(StageGridCommand, RefusesWhatIsOfOnePlan) {
  EXPECT_THAT(refusal(grid("--top 2")), HasSubstr("--top 2 is of plans of one stage"));
  EXPECT_THAT(refusal(grid("--set 'train.order=\"F0 B0\"'")), HasSubstr("\"order\" in [train]"));
  EXPECT_THAT(refusal(grid("--set search.stages=3")), HasSubstr("take a number of stages that divides them"));
  EXPECT_THAT(refusal(command("--set 'search.inter=\"gird\"'")), HasSubstr("did you mean \"grid\"?"));
}

// One table, each row what `plan` says of it.
TEST_F(StageGridCommand, AreComparedWithEachOther) {
  const std::string given = SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2 --cluster " TEST_FOLDER "/slow4_far.toml --set search.step_rounds=0 --set search.sure=false --set inter.manual.tp=2 --set inter.manual.pp=2 ";
  const Json table = json_of(run_program("compare " + given + "--inter grid,manual,none --format json"));
  const Json::Array& rows = list(table, "inter");
  ASSERT_EQ(rows.size(), 3U);
  const char* inters[] = {"grid", "manual", "none"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::get<std::string>(rows[i].find("inter")->value()), inters[i]);
    EXPECT_TRUE(std::get<bool>(rows[i].find("verified")->value()));
    const Json planned = json_of(run_program("plan " + given + "--format json --set 'search.inter=\"" + inters[i] + "\"'"));
    EXPECT_EQ(real(rows[i], "step_seconds"), real(planned, "step_seconds")) << inters[i];
    EXPECT_LE(real(rows[0], "step_seconds"), real(rows[i], "step_seconds"));
  }
  EXPECT_LE(real(rows[0], "step_lower_bound_seconds"), real(rows[0], "step_seconds"));
  const Outcome text = run_program("compare " + given + "--set inter.manual.ep=2 --inter manual,none --no-verify");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.output, AllOf(testing::ContainsRegex("manual +elimination +failed"), testing::ContainsRegex("none +elimination +1 .* ms .* not run"), HasSubstr("manual, elimination: \"ep\" in [inter.manual]")));
  EXPECT_THAT(refusal("compare " + given + "--inter grid,grid"), HasSubstr("--inter names 'grid' twice"));
  EXPECT_THAT(refusal("compare " + given + "--inter alpha"), HasSubstr("\"inter\" in [search] can't be \"alpha\""));
  EXPECT_THAT(refusal("compare " + given + "--inter grid --stages 2"), HasSubstr("leave one out"));
  EXPECT_THAT(refusal("compare " + given), HasSubstr("compare needs solvers"));
}

// Two stages, each of two devices: the batch over them, or the weights.
TEST_F(StageGridCommand, DegreesAreAPlanUnderTheSameClock) {
  const Json tensor = json_of(run_program(manual("--set inter.manual.tp=2 --set inter.manual.pp=2 --set train.microbatches=4 --format json -o " + path("tensor.json"))));
  verify_and_simulate(path("tensor.json"), tensor, 4);
  const std::string same = "--set search.stages=2 --set train.microbatches=4 --set 'search.weights=\"sharded\"' --set 'search.zero=\"0\"' --mesh 2 --format json ";
  EXPECT_EQ(real(tensor, "step_seconds"), real(json_of(run_program(command(same))), "step_seconds"));
  const Json data = json_of(run_program(manual("--set inter.manual.dp=2 --set inter.manual.pp=2 --set train.microbatches=4 --format json -o " + path("data.json"))));
  verify_and_simulate(path("data.json"), data, 4);
  const Json chosen = json_of(run_program(grid("--format json")));
  for (const Json* manual : {&tensor, &data}) {
    EXPECT_EQ(list(*manual, "stages").size(), 2U);
    EXPECT_GT(real(*manual, "step_seconds"), real(chosen, "step_seconds"));
  }
  EXPECT_NE(real(tensor, "step_seconds"), real(data, "step_seconds"));
  const Json context = json_of(run_program(manual("--set inter.manual.cp=2 --set inter.manual.pp=2 --set train.microbatches=4 --format json -o " + path("context.json"))));
  verify_and_simulate(path("context.json"), context, 4);
  EXPECT_NE(real(context, "step_seconds"), real(data, "step_seconds"));
  const Json both = json_of(run_program(manual("--set inter.manual.tp=2 --format json")));  // dp is what is left
  EXPECT_EQ(std::get<std::string>(both.find("mesh")->value()), "2x2");
}

TEST_F(StageGridCommand, RefusesDegreesByName) {
  EXPECT_THAT(refusal(manual("--set inter.manual.dp=2 --set inter.manual.tp=4")), HasSubstr("dp 2 x tp 4 x pp 1 = 8 devices, but there are 4 devices of 'slow4_far'"));
  EXPECT_THAT(refusal(manual("--set inter.manual.dp=2 --set inter.manual.tp=1")), HasSubstr("dp 2 x tp 1 x pp 1 = 2 devices, but there are 4 devices"));
  EXPECT_THAT(refusal(manual("--set inter.manual.tp=3")), HasSubstr("tp 3 x pp 1 = 3 does not divide the 4 devices"));
  EXPECT_THAT(refusal(manual("--set inter.manual.dp=2 --set inter.manual.cp=4")), HasSubstr("dp 2 x cp 4 x tp 1 x pp 1 = 8 devices, but there are 4 devices"));
  EXPECT_THAT(refusal(manual("--set inter.manual.cp=3")), HasSubstr("cp 3 x tp 1 x pp 1 = 3 does not divide the 4 devices"));
  EXPECT_THAT(refusal(manual("--set inter.manual.ep=2")), HasSubstr("\"ep\" in [inter.manual] is 2, but the model has no layer of experts that is known as one"));
  EXPECT_THAT(refusal(manual("--set search.expert_axes=0")), HasSubstr("\"expert_axes\" in [search] is what [inter.manual] says"));
  EXPECT_THAT(refusal(command("--mesh 4 --set search.expert_axes=0")), HasSubstr("\"expert_axes\" in [search] is \"0\", but the model has no layer of experts"));
  EXPECT_THAT(refusal(manual("--set search.context_axes=0")), HasSubstr("\"context_axes\" in [search] is what [inter.manual] says"));
  EXPECT_THAT(refusal(command("--mesh 4 --set 'search.weights=\"shraded\"'")), HasSubstr("\"weights\" in [search] can't be \"shraded\": it is free, sharded, or numbers of mesh axes such as 0,2"));
  EXPECT_THAT(refusal(manual("--set inter.manual.pp=0")), HasSubstr("\"pp\" in [inter.manual] must be at least 1"));
  EXPECT_THAT(refusal(manual("--set inter.manual.pp=2 --set search.stages=2")), HasSubstr("\"stages\" in [search] is what [inter.manual] says"));
  EXPECT_THAT(refusal(manual("--mesh 4")), HasSubstr("the mesh of each stage is what [inter.manual] says"));
  EXPECT_THAT(refusal(manual("--set inter.manual.sp=2")), HasSubstr("sp"));
  EXPECT_THAT(refusal(command("--set inter.dp=2")), HasSubstr("[inter] has no key \"dp\""));
}

}  // namespace
}  // namespace meshwright
