// [pins]: what the user fixes stays so, the rest is the best around it, and what cannot be is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

// Plans the smallest model with these pins ("NAME=TEXT").
struct Pinned {
  Outcome outcome;
  json plan;

  explicit Pinned(const std::vector<std::string>& pins, const std::string& mesh = "2x4") {
    const std::string file =
        (std::filesystem::temp_directory_path() / ("pins" + std::to_string(::getpid()) + ".json")).string();
    std::string command = "plan " SOURCE_FOLDER "/tests/models/mlp_tiny.pt2 --cluster " TEST_FOLDER "/slow8.toml --set search.step_rounds=0 --mesh " + mesh + " -o " + file;
    for (const std::string& pin : pins) command += " --set 'pins." + pin + "'";
    outcome = run_program(command);
    if (outcome.exit_code == 0) {
      plan = json::parse(std::ifstream(file));
      EXPECT_EQ(run_program("verify " + file).exit_code, 0);
    }
    std::filesystem::remove(file);
  }

  [[nodiscard]] json variable(const std::string& kind, const std::string& name) const {
    for (const json& one : plan["variables"]) {
      if (one["kind"] == kind && one["name"] == name) return one;
    }
    return nullptr;
  }
  [[nodiscard]] double objective() const { return plan["objective_seconds"]; }
};

TEST(Pins, FixANodesStrategy) {
  const Pinned free({}), pinned({R"(linear="n, k")"});
  ASSERT_EQ(pinned.outcome.exit_code, 0) << pinned.outcome.errors;
  EXPECT_EQ(pinned.variable("node", "linear")["axes"], json({"n", "k"}));
  EXPECT_NE(free.variable("node", "linear")["axes"], json({"n", "k"}));
  EXPECT_GT(pinned.objective(), free.objective());
  EXPECT_EQ(pinned.plan["status"], "optimal");
  EXPECT_THAT(pinned.outcome.output, HasSubstr("Pinned by the configuration: \"linear\" = \"n, k\""));
}

TEST(Pins, LeaveFreeWhatAStarSays) {
  const Pinned pinned({R"(linear="*, n")"});
  ASSERT_EQ(pinned.outcome.exit_code, 0) << pinned.outcome.errors;
  EXPECT_EQ(pinned.variable("node", "linear")["axes"][1], "n");
}

TEST(Pins, FixTheLayoutAParameterIsComputedWithIn) {
  const Pinned pinned({R"("second.weight"="RS1")"});
  ASSERT_EQ(pinned.outcome.exit_code, 0) << pinned.outcome.errors;
  EXPECT_EQ(pinned.variable("parameter", "second.weight")["compute_layout"], "RS1");
}

// The value has several users: all of them get it from its fork.
TEST(Pins, FixTheLayoutOfAValue) {
  const Pinned pinned({R"(gelu="RS01")"});
  ASSERT_EQ(pinned.outcome.exit_code, 0) << pinned.outcome.errors;
  EXPECT_EQ(pinned.variable("fork", "gelu")["results"][0]["layout"], "RS01");
}

// What the best plan does anyway costs nothing, pinned or not.
TEST(Pins, ChangeNothingWhereTheyAgreeWithTheBestPlan) {
  const Pinned free({});
  const std::string axes = free.variable("node", "linear")["axes"][0].get<std::string>() + ", " +
                           free.variable("node", "linear")["axes"][1].get<std::string>();
  const Pinned pinned({"linear=\"" + axes + "\""});
  EXPECT_EQ(pinned.objective(), free.objective());
}

TEST(Pins, NameWhatContradictsAndNothingElse) {
  const Pinned pinned({R"(linear="repeat, repeat")", R"("first.weight"=S0R)", R"(gelu="S0R")"});
  EXPECT_EQ(pinned.outcome.exit_code, 3);
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("these pins contradict each other: \"first.weight\" = \"S0R\", \"linear\" = \"repeat, repeat\"\n"));
}

TEST(Pins, SayWhatCouldBeAskedFor) {
  const Pinned pinned({R"(linear="n, q")"});
  EXPECT_EQ(pinned.outcome.exit_code, 3);
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("no plan meets what [pins] says"));
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("\"linear\" = \"n, q\" in [pins] cannot be met on mesh 2x4; it can be \"repeat, repeat\""));
}

TEST(Pins, RefuseNamesThatNothingHas) {
  const Pinned pinned({R"(liner="n, k")"});
  EXPECT_EQ(pinned.outcome.exit_code, 2);
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("no parameter, value or node 'liner'; did you mean \"linear\"?"));
}

TEST(Pins, RefuseWhatEachUseCopies) {
  const Pinned pinned({R"(features="S0R")"});
  EXPECT_EQ(pinned.outcome.exit_code, 2);
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("'features' has no gradient"));
}

TEST(Pins, AreTexts) {
  const Pinned pinned({"linear=3"});
  EXPECT_EQ(pinned.outcome.exit_code, 2);
  EXPECT_THAT(pinned.outcome.errors, HasSubstr("must be a layout or a strategy, a text"));
  const Pinned dotted({"first.weight=S0R"});
  EXPECT_EQ(dotted.outcome.exit_code, 2);
  EXPECT_THAT(dotted.outcome.errors, HasSubstr("put names with dots in quotes"));
}

}  // namespace
}  // namespace meshwright
