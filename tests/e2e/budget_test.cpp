// What a memory budget does to plans, and what is said where none fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "planning.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::PlanOptions;
using host::PlanOutcome;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

PlanOptions options_within(const std::string& model, const std::string& mesh) {
  PlanOptions options;
  options.model = model.find("_tiny") == std::string::npos ? test::example(model) : SOURCE_FOLDER "/tests/models/" + model + ".pt2";
  options.cluster = test::cluster("a100x8_nvlink_pairs");
  options.mesh = mesh;
  options.explain = false;
  return options;
}

PlanOutcome plan_within(PlanOptions options, std::int64_t budget_bytes) {
  if (budget_bytes > 0) options.memory_budget = std::to_string(budget_bytes);
  Result<PlanOutcome> outcome = test::plan(options);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
  return outcome.ok() ? std::move(*outcome) : PlanOutcome{};
}

struct Nested {
  const char* model;
  const char* mesh;
};
void PrintTo(const Nested& nested, std::ostream* out) { *out << nested.model << " on " << nested.mesh; }

class NestedBudgets : public testing::TestWithParam<Nested> {};

// Budgets that shrink: each plan fits, none is cheaper than the one before, a bound never exceeds a plan's cost under the
// same or a smaller budget, and where one budget has no plan no smaller one has.
TEST_P(NestedBudgets, NeverMakeALargerOneDearer) {
  const PlanOptions options = options_within(GetParam().model, GetParam().mesh);
  const PlanOutcome free = plan_within(options, 0);
  ASSERT_TRUE(free.plan);
  double last = free.plan->objective_seconds, highest_bound = free.plan->lower_bound_seconds;
  bool refused = false;
  int met = 0;
  for (const double share : {1.0, 0.95, 0.87, 0.78, 0.66, 0.52, 0.4}) {
    SCOPED_TRACE(share);
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(free.plan->peak_bytes));
    const PlanOutcome outcome = plan_within(options, budget);
    if (!outcome.plan) {
      refused = true;
      ASSERT_EQ(outcome.trials.size(), 1U);
      EXPECT_NE(outcome.trials[0].binding, "");
      continue;
    }
    EXPECT_FALSE(refused);
    EXPECT_LE(outcome.plan->peak_bytes, budget);
    EXPECT_GE(outcome.plan->objective_seconds, last);
    highest_bound = std::max(highest_bound, outcome.plan->lower_bound_seconds);
    EXPECT_LE(highest_bound, outcome.plan->objective_seconds);
    last = outcome.plan->objective_seconds;
    ++met;
  }
  EXPECT_GE(met, 2);
}

INSTANTIATE_TEST_SUITE_P(Zoo, NestedBudgets,
                         testing::Values(Nested{"gpt2_small", "8"}, Nested{"gpt2_small", "2x4"}, Nested{"bert_base", "8"}, Nested{"vit_base", "8"},
                                         Nested{"gpt2_tiny", "2x4"}, Nested{"bert_tiny", "2x4"}, Nested{"vit_tiny", "2x2x2"},
                                         Nested{"llama_tiny", "2x4"}, Nested{"t5_tiny", "2x4"}, Nested{"resnet_tiny", "2x4"},
                                         Nested{"vgg_tiny", "2x4"}, Nested{"clip_tiny", "2x4"}, Nested{"swin_tiny", "8"},
                                         Nested{"mixtral_tiny", "8"}, Nested{"qwen_moe_tiny", "8"}),
                         [](const auto& info) { return std::string(info.param.model) + "_" + info.param.mesh; });

// Data parallelism exceeds it, ZeRO meets it, and a smaller one nobody.
TEST(Budget, IsMetByZeroWhereDataParallelismExceedsIt) {
  PlanOptions options = options_within("gpt2_small", "8");
  options.set = {"search.batch_axes=all", "search.zero=0"};
  const PlanOutcome plain = plan_within(options, 0);
  options.set = {"search.batch_axes=all", "search.zero=3", "search.regather=always"};
  const PlanOutcome sharded = plan_within(options, 0);
  ASSERT_TRUE(plain.plan && sharded.plan);
  ASSERT_LT(sharded.plan->peak_bytes, plain.plan->peak_bytes);
  const std::int64_t between = (plain.plan->peak_bytes + sharded.plan->peak_bytes) / 2;
  options.set = {"search.batch_axes=all", "search.zero=0"};
  EXPECT_FALSE(plan_within(options, between).plan);
  options.set = {"search.batch_axes=all"};
  const PlanOutcome met = plan_within(options, between);
  ASSERT_TRUE(met.plan);
  EXPECT_LE(met.plan->peak_bytes, between);
  const auto is_sharded = [](const PlannedVariable& variable) { return variable.parameter() != nullptr && variable.parameter()->zero != ZeroStage::none; };
  EXPECT_TRUE(std::any_of(met.plan->variables.begin(), met.plan->variables.end(), is_sharded));
  EXPECT_FALSE(plan_within(options, sharded.plan->peak_bytes / 4).plan);
}

TEST(Budget, ThatNothingFitsIsRefusedWithWhatFillsThePeakAndWhatWouldFit) {
  const std::string command = "plan " + test::example("gpt2_small") + " --cluster " + test::cluster("a100x8_nvlink_pairs") + " --mesh 8";
  const Outcome forced = run_program(command + " --set search.batch_axes=all --set search.zero=0 --memory-budget 2500MiB");
  EXPECT_EQ(forced.exit_code, 3);
  for (const char* said : {"no plan fits into 2.44 GiB per device", "needs at least", "the smallest budget for which a plan is known is",
                           "its peak is at 'cross_entropy_loss'", "saved activations", "optimizer state", "parameters", "the largest of its values",
                           "with search.zero=free a plan fits", "not tried, but may do: train.dtype=bf16 (about"}) {
    EXPECT_THAT(forced.errors, HasSubstr(said));
  }
  EXPECT_LE(std::count(forced.errors.begin(), forced.errors.end(), '\n'), 6);
  const Outcome hopeless = run_program(command + " --memory-budget 20MiB --format json");
  EXPECT_EQ(hopeless.exit_code, 3);
  const nlohmann::json summary = nlohmann::json::parse(hopeless.output);
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("not tried, but may do: any other mesh"));
  const auto& mesh = summary["meshes_tried"][0];
  EXPECT_LE(mesh["least_bytes"], mesh["smallest_known_bytes"]);
}

// The peak that a plan claims is what simulate predicts and what the ranks measure.
TEST(Budget, IsHeldAgainstWhatTheRanksMeasure) {
  const std::string file = (std::filesystem::temp_directory_path() / ("budget" + std::to_string(::getpid()) + ".json")).string();
  const std::string model = SOURCE_FOLDER "/tests/models/llama_tiny.pt2";
  const std::string command = "plan " + model + " --cluster " + test::cluster("a100x8_nvlink_pairs") + " --mesh 2x4 --format json -o " + file;
  const std::int64_t free = nlohmann::json::parse(run_program(command).output)["peak_bytes"];
  for (const double share : {1.0, 0.7, 0.45}) {
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(free));
    const Outcome planned = run_program(command + " --memory-budget " + std::to_string(budget));
    ASSERT_EQ(planned.exit_code, 0) << planned.errors;
    const nlohmann::json plan = nlohmann::json::parse(planned.output);
    EXPECT_LE(plan["peak_bytes"], budget);
    EXPECT_EQ(nlohmann::json::parse(run_program("simulate " + file + " --format json").output)["peak_bytes"], plan["peak_bytes"]);
    const nlohmann::json verified = nlohmann::json::parse(run_program("verify " + file + " --format json").output);
    EXPECT_TRUE(verified["equal"]);
    EXPECT_EQ(verified["peak_bytes_measured"], plan["peak_bytes"]);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace meshwright
