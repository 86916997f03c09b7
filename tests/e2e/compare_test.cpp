// `meshwright compare`: one table of several solvers, on one problem and under one cost model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;
using testing::Not;

const std::string kTiny = "compare " SOURCE_FOLDER "/tests/models/mlp_tiny.pt2 --cluster " TEST_FOLDER "/slow8.toml ";

TEST(Compare, HasARowForEachSolver) {
  const Outcome outcome = run_program(kTiny + "--mesh 2x4 --intra elimination,ilp_lp_solve,ilp_cbc,exhaustive");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* column : {"solver", "objective", "gap", "step", "peak memory", "search", "verified"})
    EXPECT_THAT(outcome.output, HasSubstr(column));
  for (const char* solver : {"elimination", "ilp_lp_solve", "ilp_cbc", "exhaustive"})
    EXPECT_THAT(outcome.output, HasSubstr(std::string("\n  ") + solver));
}

// Of the same space, so they agree on its best cost to the tick; and what they chose runs.
TEST(Compare, ExactSolversAgree) {
  const Outcome outcome = run_program(kTiny + "--set search.step_rounds=0 --intra elimination,ilp_lp_solve,ilp_cbc,exhaustive --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["solvers"].size(), 4U);
  for (const auto& row : json["solvers"]) {
    EXPECT_EQ(row["objective_seconds"], json["solvers"][0]["objective_seconds"]) << row;
    EXPECT_EQ(row["status"], "optimal") << row;
    EXPECT_EQ(row["verified"], true) << row;
    EXPECT_EQ(row["objective_seconds"], json["lower_bound_seconds"]) << row;
  }
}

TEST(Compare, RunsNothingIfItNeedNot) {
  const Outcome outcome = run_program(kTiny + "--mesh 8 --intra elimination --no-verify");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("not run"));
}

TEST(Compare, NamesASolverThatItDoesNotKnow) {
  const Outcome outcome = run_program(kTiny + "--intra elimination,eliminaton --no-verify");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("eliminaton"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("objective")));
}

TEST(Compare, RefusesASolverTwice) {
  const Outcome outcome = run_program(kTiny + "--intra elimination,elimination");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("'elimination' twice"));
}

TEST(Compare, SaysThatNothingFits) {
  const Outcome outcome = run_program(kTiny + "--mesh 2x4 --memory-budget 1KiB --intra elimination,ilp_lp_solve");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("no plan"));
  EXPECT_THAT(outcome.output, HasSubstr("ilp_lp_solve: "));
  EXPECT_THAT(outcome.errors, HasSubstr("none of the solvers has a plan that fits"));
}

// The others' rows are there all the same.
TEST(Compare, SaysWhyASolverFailed) {
  const Outcome outcome = run_program("compare " SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2 --cluster " TEST_FOLDER
                                      "/slow8.toml --mesh 2x4 --set search.step_rounds=0 --no-verify --intra exhaustive,elimination");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("exhaustive +failed"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("elimination +2x4 +optimal"));
  EXPECT_THAT(outcome.output, HasSubstr("choose a solver that does not try them all"));
}

// Of one stage and of two, by each schedule and solver: the figures are those of `plan` where nobody asks how sure they are, and a pipeline's step has no bound.
TEST(Compare, HasRowsOfPipelines) {
  const std::string given = SOURCE_FOLDER "/tests/models/gpt2_deep_tiny.pt2 --cluster " TEST_FOLDER "/slow8.toml --set train.microbatches=4 --set search.step_rounds=1 --format json ";
  const Outcome outcome = run_program("compare " + given + "--intra elimination,tap --stages 1,2 --schedule gpipe,interleaved");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["solvers"].size(), 6U);
  for (std::size_t i = 0; i < json["solvers"].size(); ++i) {
    const auto& row = json["solvers"][i];
    EXPECT_EQ(row["solver"], i % 2 == 0 ? "elimination" : "tap") << row;
    EXPECT_EQ(row["verified"], true) << row;
    EXPECT_EQ(row["asked_stages"], i < 2 ? 1 : 2) << row;
    EXPECT_EQ(row.contains("step_lower_bound_seconds"), i < 2) << row;
    if (i < 2) continue;
    const std::string schedule = i < 4 ? "gpipe" : "interleaved";
    EXPECT_EQ(row["schedule"], schedule);
    const Outcome planned = run_program("plan " + given + "--set search.sure=false --set search.stages=2 --set 'search.schedule=\"" + schedule + "\"' --intra " + row["solver"].get<std::string>());
    ASSERT_EQ(planned.exit_code, 0) << planned.errors;
    const auto plan = nlohmann::json::parse(planned.output);
    EXPECT_EQ(row["step_seconds"], plan["step_seconds"]);
    EXPECT_EQ(row["bubble"], plan["bubble"]);
    EXPECT_EQ(row["peak_bytes"], plan["peak_bytes"]);
    ASSERT_EQ(row["stages"].size(), plan["stages"].size());
    for (std::size_t stage = 0; stage < row["stages"].size(); ++stage) {
      for (const char* key : {"mesh", "status", "step_share_seconds", "peak_bytes"}) EXPECT_EQ(row["stages"][stage][key], plan["stages"][stage][key]) << key;
    }
    EXPECT_EQ(row["status"], i % 2 == 0 ? "bounded" : "heuristic") << row;
  }
  EXPECT_EQ(json["step_lower_bound_seconds"], json["solvers"][0]["step_lower_bound_seconds"]);
}

TEST(Compare, SaysThatAPipelineHasNoBound) {
  const Outcome outcome = run_program(kTiny + "--set search.stages=2 --set train.microbatches=2 --intra elimination,tap --no-verify");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("The step of several stages has no bound"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("elimination +2 +one_f_one_b +[0-9x]+ +(optimal|bounded)"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("gap")));
}

TEST(Compare, RefusesStagesAndSchedulesByName) {
  const auto refusal = [](const std::string& options) {
    const Outcome outcome = run_program(kTiny + "--set train.microbatches=2 --no-verify --intra elimination " + options);
    EXPECT_NE(outcome.exit_code, 0) << options;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("--stages 2,4,2"), HasSubstr("--stages names 2 twice"));
  EXPECT_THAT(refusal("--stages 2 --schedule gpipe,gpipe"), HasSubstr("--schedule names 'gpipe' twice"));
  EXPECT_THAT(refusal("--stages 2 --schedule gpip"), HasSubstr("did you mean \"gpipe\"?"));
  EXPECT_THAT(refusal("--schedule gpipe"), HasSubstr("--schedule is of several stages, and there is one; give --stages"));
  EXPECT_THAT(refusal("--stages 0"), HasSubstr("must be at least 1"));
  EXPECT_THAT(refusal("--stages 3"), HasSubstr("take a number of stages that divides them"));
}

// A cut that cannot be is a row that says so, next to the others.
TEST(Compare, SaysWhyACutFailed) {
  const Outcome outcome = run_program(kTiny + "--set train.microbatches=2 --no-verify --intra elimination --stages 2,3");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("elimination +3 +one_f_one_b +failed"));
  EXPECT_THAT(outcome.output, HasSubstr("elimination, 3 stages by one_f_one_b: 8 devices of 'slow8' in 3 stages"));
}

TEST(Compare, SaysOnceWhatIsWrongWithTheModel) {
  const Outcome outcome = run_program("compare missing.pt2 --cluster " TEST_FOLDER "/slow8.toml --intra elimination,ilp_lp_solve");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("missing.pt2"));
  EXPECT_THAT(outcome.output, testing::IsEmpty());
}

}  // namespace
}  // namespace meshwright
