// TAP's search (plugins/intra/tap) on whole models: what it folds, which plans win, that they compute what one device does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

std::string models(const std::string& name) { return SOURCE_FOLDER "/tests/models/" + name; }
std::string cluster(const std::string& name) { return " --cluster " TEST_FOLDER "/" + name + ".toml"; }

// A plan, and what the solver says about it.
struct TapPlan {
  Outcome outcome;
  json plan;
  bool verified = false;

  TapPlan(const std::string& model, const std::string& options, bool verify = false) {
    const std::string file = (std::filesystem::temp_directory_path() / ("tap" + std::to_string(::getpid()) + ".json")).string();
    outcome = run_program("plan " + models(model) + options + " -o " + file);
    if (outcome.exit_code == 0) plan = json::parse(std::ifstream(file));
    if (outcome.exit_code == 0 && verify) verified = run_program("verify " + file).exit_code == 0;
    std::filesystem::remove(file);
  }

  [[nodiscard]] double objective() const { return plan.at("objective_seconds"); }
  [[nodiscard]] std::string method() const { return plan.at("method"); }

  // The number before `what` in what the solver says.
  [[nodiscard]] int count(const std::string& what) const {
    std::smatch found;
    const std::string text = method();
    EXPECT_TRUE(std::regex_search(text, found, std::regex("([0-9]+) " + what))) << text;
    return found.empty() ? -1 : std::stoi(found[1]);
  }

  // Of the parameters whose names match: how many are computed with whole, and how many in shards.
  struct Weights {
    int whole = 0, split = 0;
  };
  [[nodiscard]] Weights weights(const std::string& pattern) const {
    Weights weights;
    for (const json& one : plan.at("variables")) {
      if (one["kind"] != "parameter" || !std::regex_search(one["name"].get<std::string>(), std::regex(pattern))) continue;
      const std::string layout = one["compute_layout"];
      ++(layout.find('S') == std::string::npos ? weights.whole : weights.split);
    }
    return weights;
  }
};

class Tap : public testing::TestWithParam<const char*> {};

// Its plans are right, and the exact solver's are never dearer.
TEST_P(Tap, PlansVerifyAndAreNeverBelowTheOptimum) {
  for (const std::string where : {"slow8", "slow8_far"}) {
    const std::string options = cluster(where) + " --mesh 2x4 --set search.step_rounds=0";
    const TapPlan tap(GetParam(), options + " --intra tap", true), best(GetParam(), options);
    ASSERT_EQ(tap.outcome.exit_code, 0) << tap.outcome.errors;
    ASSERT_EQ(best.plan["status"], "optimal");
    EXPECT_TRUE(tap.verified) << where;
    EXPECT_EQ(tap.plan["status"], "heuristic");
    EXPECT_GE(tap.objective(), best.objective());
    EXPECT_LE(tap.plan["lower_bound_seconds"], best.objective());
    EXPECT_GT(tap.plan["lower_bound_seconds"], 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Tap,
                         testing::Values("gpt2_tiny.pt2", "bert_tiny.pt2", "t5_tiny.pt2", "resnet_tiny.pt2", "mixtral_tiny.pt2", "vit_tiny.pt2",
                                         "swin_tiny.pt2", "mlp_tiny.pt2", "llama_tiny.pt2"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           return name.replace(name.find('.'), 1, "_");
                         });

TEST(TapFolding, FindsTheLayersOfATransformer) {
  const TapPlan plan("bert_tiny.pt2", cluster("slow8") + " --mesh 8 --intra tap");
  EXPECT_EQ(plan.count("GraphNodes"), 17);  // 2 layers of 6, 3 embeddings, 2 in the head
  EXPECT_EQ(plan.count("unique blocks"), 6);
  EXPECT_THAT(plan.method(), HasSubstr("inner.bert.encoder.layer.0 (x2)"));
}

// Three patterns of six weights, and some of the five other blocks.
TEST(TapFolding, ExaminesAllPlansOfALayer) {
  const TapPlan plan("bert_tiny.pt2", cluster("slow8") + " --mesh 8 --intra tap");
  EXPECT_GE(plan.count("plans examined"), 729);
  EXPECT_LE(plan.count("plans examined"), 800);
}

TEST(TapFolding, SaysWhereABlockHasTooManyPlans) {
  const TapPlan plan("bert_tiny.pt2", cluster("slow8") + " --mesh 8 --intra tap --set search.tap.max_plans=27");
  EXPECT_THAT(plan.method(), HasSubstr("1 block in parts"));
  EXPECT_LT(plan.count("plans examined"), 729);
}

TEST(TapFolding, SaysWhereWorkIsAtItsEnd) {
  const std::string options = cluster("slow8") + " --mesh 8 --intra tap --set search.work_limit=";
  const TapPlan all("bert_tiny.pt2", options + "4_000_000_000"), some("bert_tiny.pt2", options + "100_000");
  ASSERT_EQ(some.outcome.exit_code, 0) << some.outcome.errors;
  EXPECT_THAT(some.method(), HasSubstr("stopped by its limits"));
  EXPECT_EQ(all.method().find("stopped"), std::string::npos);
  EXPECT_LT(some.count("plans examined"), all.count("plans examined"));
}

TEST(TapFolding, IsInsensitiveToTheThresholdAsInFigure7) {
  for (const int duplicates : {2, 3, 6, 12}) {
    const TapPlan plan("bert_base_17.onnx", " --cluster " SOURCE_FOLDER "/tests/zoo/roomy8.toml --mesh 8 --intra tap --set search.tap.min_duplicates=" + std::to_string(duplicates));
    ASSERT_EQ(plan.outcome.exit_code, 0) << plan.outcome.errors;
    EXPECT_EQ(plan.count("unique blocks"), 6) << duplicates;
  }
  const TapPlan above("bert_base_17.onnx", " --cluster " SOURCE_FOLDER "/tests/zoo/roomy8.toml --mesh 8 --intra tap --set search.tap.min_duplicates=13");
  EXPECT_LE(above.count("unique blocks"), 10);
}

TEST(TapFolding, FoldsNothingAtOne) {
  const TapPlan plan("bert_tiny.pt2", cluster("slow8") + " --mesh 8 --intra tap --set search.tap.min_duplicates=1");
  EXPECT_EQ(plan.count("unique blocks"), plan.count("GraphNodes"));
}

TEST(TapFolding, OfAResNetHasAtMostTenBlocks) {
  for (const std::string model : {"resnet50.pt2", "resnet50_23.onnx"}) {
    const TapPlan plan(model, " --cluster " SOURCE_FOLDER "/tests/zoo/roomy8.toml --mesh 8 --intra tap");
    ASSERT_EQ(plan.outcome.exit_code, 0) << plan.outcome.errors;
    EXPECT_EQ(plan.count("GraphNodes"), 54);
    EXPECT_EQ(plan.count("unique blocks"), 10) << model;  // four stages, each with a first block; the stem and the head
  }
}

TEST(TapFolding, IsByStructureWhereNamesAreMissing) {
  const TapPlan plan("nameless_tiny.onnx", cluster("slow8") + " --mesh 2x4 --intra tap --set model.loss=mse", true);
  ASSERT_EQ(plan.outcome.exit_code, 0) << plan.outcome.errors;
  EXPECT_EQ(plan.count("GraphNodes"), 10);
  EXPECT_EQ(plan.count("unique blocks"), 3);  // four layers of two, and one before and after
  EXPECT_THAT(plan.method(), HasSubstr("without a name (x4)"));
  EXPECT_TRUE(plan.verified);
}

// --- which plans win (§6.4.2, Figure 14) ---

const std::string kFarther = cluster("slow8_farther") + " --mesh 2x4 --intra tap";

TEST(TapWinner, IsMegatronWhereWeightsAreDear) {
  const TapPlan plan("gpt2_tiny.pt2", kFarther + " --set model.batch=16", true);
  EXPECT_THAT(plan.method(), HasSubstr("S1 S0 S1 S0"));
  EXPECT_EQ(plan.weights(R"(h\.\d\.(attn|mlp)\.\w+\.weight)").split, 8);
  EXPECT_TRUE(plan.verified);
}

TEST(TapWinner, IsTheFeedForwardAloneInBetween) {
  const TapPlan plan("gpt2_tiny.pt2", kFarther + " --set model.batch=24", true);
  EXPECT_THAT(plan.method(), HasSubstr("R R S1 S0"));
  EXPECT_EQ(plan.weights(R"(h\.\d\.attn\.\w+\.weight)").whole, 4);
  EXPECT_EQ(plan.weights(R"(h\.\d\.mlp\.\w+\.weight)").split, 4);
  EXPECT_TRUE(plan.verified);
}

TEST(TapWinner, IsDataParallelismWhereActivationsAreDear) {
  const TapPlan plan("gpt2_tiny.pt2", kFarther + " --set model.batch=32", true);
  EXPECT_EQ(plan.weights(R"(h\.\d\.(attn|mlp)\.\w+\.weight)").whole, 8);
  EXPECT_TRUE(plan.verified);
}

TEST(TapWinner, IsTheAttentionAloneWhereMostWeightsAreItsOwn) {
  const TapPlan plan("t5_attentive_tiny.pt2", kFarther + " --set model.batch=8", true);
  EXPECT_EQ(plan.weights(R"((SelfAttention|EncDecAttention)\.[qkvo]\.weight)").split, 12);
  EXPECT_EQ(plan.weights(R"(DenseReluDense\.w[io]\.weight)").whole, 4);
  EXPECT_TRUE(plan.verified);
}

// --- as a solver among others ---

TEST(TapSolver, FitsABudget) {
  const std::string options = cluster("slow8") + " --mesh 8 --set search.zero=0 --set model.batch=16";
  const TapPlan free("gpt2_tiny.pt2", options + " --intra tap");
  const auto budget = static_cast<std::int64_t>(0.8 * free.plan["peak_bytes"].get<double>());
  const TapPlan tight("gpt2_tiny.pt2", options + " --intra tap --memory-budget " + std::to_string(budget), true);
  ASSERT_EQ(tight.outcome.exit_code, 0) << tight.outcome.errors;
  EXPECT_LE(tight.plan["peak_bytes"], budget);
  EXPECT_TRUE(tight.verified);
}

TEST(TapSolver, SaysWhenItFindsNothingThatFits) {
  const Outcome outcome = run_program("plan " + models("gpt2_tiny.pt2") + cluster("slow8") + " --mesh 8 --intra tap --memory-budget 1KiB");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.errors + outcome.output, HasSubstr("proven impossible"));
}

TEST(TapSolver, KeepsPins) {
  const std::string name = "inner.transformer.h.1.mlp.c_fc.weight";
  const TapPlan plan("gpt2_tiny.pt2", cluster("slow8") + " --mesh 8 --intra tap --set 'pins.\"" + name + "\"=\"RS0\"'", true);
  ASSERT_EQ(plan.outcome.exit_code, 0) << plan.outcome.errors;
  EXPECT_EQ(plan.weights(R"(h\.1\.mlp\.c_fc\.weight)").split, 1);
  EXPECT_EQ(plan.weights(R"(h\.0\.mlp\.c_fc\.weight)").whole, 1);
  EXPECT_TRUE(plan.verified);
}

TEST(TapSolver, NamesPinsThatContradictEachOther) {
  const Outcome outcome = run_program("plan " + models("mlp_tiny.pt2") + cluster("slow8") +
                                      " --mesh 8 --intra tap --set 'pins.\"first.weight\"=\"S0R\"' --set 'pins.\"linear\"=\"k\"'");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_THAT(outcome.errors, HasSubstr("contradict"));
}

TEST(TapSolver, StandsBesideOthersInCompare) {
  const Outcome outcome = run_program("compare " + models("bert_tiny.pt2") + cluster("slow8") + " --mesh 2x4 --set search.step_rounds=0 --intra tap,elimination --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json table = json::parse(outcome.output);
  EXPECT_EQ(table["solvers"][0]["status"], "heuristic");
  EXPECT_EQ(table["solvers"][0]["verified"], true);
  EXPECT_EQ(table["lower_bound_seconds"], table["solvers"][1]["objective_seconds"]);
}

TEST(TapSolver, GivesTheSamePlanAgain) {
  const std::string options = cluster("slow8_far") + " --mesh 2x4 --intra tap";
  EXPECT_EQ(TapPlan("t5_tiny.pt2", options).plan, TapPlan("t5_tiny.pt2", options).plan);
}

TEST(TapSolver, RefusesNumbersAlone) {
  const std::string file = (std::filesystem::temp_directory_path() / ("tap_numbers" + std::to_string(::getpid()) + ".json")).string();
  std::ofstream(file) << R"({"problem": {"nodes": {"intervals": [[0, 2], [1, 3], [1, 3]], "costs": [[1, 10], [1, 2], [3, 1]],
    "usages": [[80, 10], [5, 20], [5, 9]]}, "edges": {"nodes": [[0, 1], [1, 2], [2, 0]], "costs": [[9, 0, 0, 1], [1, 2, 0, 3], [3, 0, 1, 1]]},
    "usage_limit": 50}})";
  const Outcome outcome = run_program("iopddl " + file + " 2 --intra tap");
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("tap reads the names and weights of a model"));
  EXPECT_THAT(outcome.errors, HasSubstr("choose elimination"));
}

TEST(TapSolver, RefusesThresholdsBelowOne) {
  for (const std::string key : {"min_duplicates", "max_plans"}) {
    const Outcome outcome = run_program("plan " + models("mlp_tiny.pt2") + cluster("slow8") + " --intra tap --set search.tap." + key + "=0");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.errors, HasSubstr(key + " must be at least 1, not 0"));
  }
}

}  // namespace
}  // namespace meshwright
