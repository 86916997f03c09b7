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

TEST(Compare, SaysOnceWhatIsWrongWithTheModel) {
  const Outcome outcome = run_program("compare missing.pt2 --cluster " TEST_FOLDER "/slow8.toml --intra elimination,ilp_lp_solve");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("missing.pt2"));
  EXPECT_THAT(outcome.output, testing::IsEmpty());
}

}  // namespace
}  // namespace meshwright
