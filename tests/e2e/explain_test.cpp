// `meshwright explain`: alternatives and what they would add, held against plans that are pinned to them.
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

class Explain : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(plan("").exit_code, 0); }
  void TearDown() override { std::filesystem::remove(file_); }

  [[nodiscard]] Outcome plan(const std::string& options) const {
    return run_program("plan " SOURCE_FOLDER "/tests/models/mlp_tiny.pt2 --cluster " TEST_FOLDER "/slow8.toml --mesh 2x4 --set search.step_rounds=0 " + options + " -o " + file_);
  }
  [[nodiscard]] double objective() const { return json::parse(std::ifstream(file_))["objective_seconds"]; }
  [[nodiscard]] Outcome explain(const std::string& what) const { return run_program("explain " + file_ + " " + what); }

  const std::string file_ = (std::filesystem::temp_directory_path() / ("explain" + std::to_string(::getpid()) + ".json")).string();
};

TEST_F(Explain, AlternativesCostWhatPlansPinnedToThemCost) {
  const Outcome outcome = explain("linear --alternatives 5 --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const double best = objective();
  const json node = json::parse(outcome.output)["explained"][0];
  int compared = 0;
  for (const json& alternative : node["alternatives"]) {
    if (!alternative.contains("adds_seconds")) continue;
    ASSERT_EQ(plan("--set 'pins.linear=\"" + alternative["strategy"].get<std::string>() + "\"'").exit_code, 0) << alternative;
    EXPECT_NEAR(objective() - best, alternative["adds_seconds"].get<double>(), 1e-11) << alternative;
    if (alternative["allowed_alone"].get<bool>()) {
      EXPECT_GE(alternative["alone_adds_seconds"].get<double>(), alternative["adds_seconds"].get<double>()) << alternative;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

TEST_F(Explain, AValueThatIsSharedHasAForkToo) {
  const Outcome outcome = explain("gelu");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("node gelu, aten.gelu"));
  EXPECT_THAT(outcome.output, HasSubstr("fork gelu"));
  EXPECT_THAT(outcome.output, HasSubstr("all else at its best"));
}

TEST_F(Explain, AParameterSaysHowItIsStored) {
  const Outcome outcome = explain("second.weight");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("parameter second.weight"));
  EXPECT_THAT(outcome.output, HasSubstr("ZeRO-3"));
}

TEST_F(Explain, WithoutANameItListsWhatTakesMostTime) {
  const Outcome outcome = explain("--format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json all = json::parse(outcome.output)["explained"];
  ASSERT_GT(all.size(), 10U);
  EXPECT_EQ(all[0]["name"], "linear_1");  // the largest of the three products
  EXPECT_THAT(explain("").output, HasSubstr("What takes most time"));
}

TEST_F(Explain, RefusesAnUnknownNameWithTheNearest) {
  const Outcome outcome = explain("linera");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("did you mean \"linear\"?"));
}

// A plan that was made under other settings is explained under those.
TEST_F(Explain, AsksForTheSettingsOfThePlan) {
  ASSERT_EQ(plan("--set search.zero=2 --set search.batch_axes=all").exit_code, 0);
  EXPECT_EQ(explain("linear --set search.zero=2 --set search.batch_axes=all").exit_code, 0);
  const Outcome outcome = explain("linear --set search.zero=1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("give the configuration and settings with which it was planned"));
}

}  // namespace
}  // namespace meshwright
