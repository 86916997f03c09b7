// Plans that are handed on from tighter budgets: more memory never gives a slower plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "folder_test.h"
#include "planned_program.h"
#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;

struct HandedOnCase {
  const char* model;
  const char* mesh;
  const char* recompute;
};
void PrintTo(const HandedOnCase& handed, std::ostream* out) { *out << handed.model << " on " << handed.mesh << ", " << handed.recompute; }

std::string command_for(const std::string& model, const std::string& mesh, const std::string& recompute) {
  return "plan " + test::tiny(model) + " --cluster " + test::cluster_of(mesh) + " --mesh " + mesh + " --set search.sure=false --set search.recompute=" + recompute;
}

class HandedOn : public test::FolderTest, public testing::WithParamInterface<HandedOnCase> {};

TEST_P(HandedOn, MoreMemoryNeverGivesASlowerPlan) {
  const std::string command = command_for(GetParam().model, GetParam().mesh, GetParam().recompute) + " --set search.step_rounds=0 --format json";
  const std::int64_t most = nlohmann::json::parse(run_program(command).output)["peak_bytes"];
  double last = 0;
  std::string known;
  for (const double share : {0.5, 0.6, 0.7, 0.85, 1.0, 2.0}) {
    SCOPED_TRACE(share);
    const std::string file = path("plan_" + std::to_string(share) + ".json");
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(most));
    const Outcome outcome = run_program(command + " --memory-budget " + std::to_string(budget) + known + " -o " + file);
    if (outcome.exit_code == 3) {
      EXPECT_EQ(known, "") << "what fits a tighter budget fits";
      continue;
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const nlohmann::json plan = nlohmann::json::parse(outcome.output);
    EXPECT_LE(plan["peak_bytes"], budget);
    EXPECT_LE(plan["step_lower_bound_seconds"], plan["step_seconds"]);
    if (last > 0) {
      EXPECT_LE(plan["step_seconds"], last);
    }
    last = plan["step_seconds"];
    EXPECT_EQ(nlohmann::json::parse(run_program("simulate " + file + " --format json").output)["peak_bytes"], plan["peak_bytes"]);
    known = " --known " + file;
  }
  EXPECT_NE(known, "");
}

INSTANTIATE_TEST_SUITE_P(, HandedOn,
                         testing::Values(HandedOnCase{"gpt2_deep_tiny", "2x2", "free"}, HandedOnCase{"gpt2_deep_tiny", "4", "blocks"},
                                         HandedOnCase{"llama_tiny", "2x2", "blocks"}, HandedOnCase{"resnet_tiny", "2x2", "free"}),
                         [](const auto& info) { return std::string(info.param.model) + "_" + info.param.mesh + "_" + info.param.recompute; });

class KnownPlan : public test::FolderTest {};

// The best plan of a roomy budget, known where a search that is allowed little finds a slower one.
TEST_F(KnownPlan, IsTheAnswerWhereNothingFasterIsFound) {
  const std::string fast = path("fast.json"), again = path("again.json"), command = command_for("gpt2_deep_tiny", "4", "none");
  const nlohmann::json best = nlohmann::json::parse(run_program(command + " --format json -o " + fast).output);
  const Outcome restricted = run_program(command + " --set search.batch_axes=none --set search.zero=0 --set search.weights=sharded --format json");
  ASSERT_EQ(restricted.exit_code, 0) << restricted.errors;
  ASSERT_GE(nlohmann::json::parse(restricted.output)["step_seconds"], best["step_seconds"]);
  const Outcome tight = run_program(command + " --memory-budget 1KiB --known " + fast);
  EXPECT_EQ(tight.exit_code, 3) << "what does not fit is no answer";
  const Outcome forced = run_program(command + " --set search.weights=sharded --set search.zero=0 --known " + fast + " --format json -o " + again);
  ASSERT_EQ(forced.exit_code, 0) << forced.errors;
  EXPECT_LE(nlohmann::json::parse(forced.output)["step_seconds"], best["step_seconds"]);
  const Outcome other = run_program(command_for("llama_tiny", "4", "none") + " --known " + fast);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, testing::AllOf(HasSubstr("--known"), HasSubstr("another model")));
  const Outcome trained = run_program(command + " --set train.optimizer=sgd --known " + fast);
  EXPECT_EQ(trained.exit_code, 2);
  EXPECT_THAT(trained.errors, HasSubstr("another training"));
}

}  // namespace
}  // namespace meshwright
