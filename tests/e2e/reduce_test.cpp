// The reduction and the memo of identical parts change how long a search takes, and not what it finds.
#include <gtest/gtest.h>

#include "planning.h"

namespace meshwright {
namespace {

struct ReduceCase {
  const char* model;
  const char* cluster;
  const char* mesh;
  const char* budget;
};

// Chains, skips, concatenation, an encoder with its decoder; one to three axes, with and without a budget that binds.
const ReduceCase kCases[] = {
    {"/examples/gpt2_map_alpha.pt2", "/configs/clusters/a100x8_nvlink_pairs.toml", "2x4", ""},
    {"/examples/gpt2_small.pt2", "/configs/clusters/a100x8_nvlink_pairs.toml", "2x4", "2200MiB"},  // 3.01 GiB without it
    {"/tests/models/gpt2_tiny.pt2", "/tests/e2e/slow8.toml", "2x2x2", ""},
    {"/tests/models/t5_tiny.pt2", "/tests/e2e/slow8.toml", "2x4", ""},
    {"/tests/models/unet_tiny.pt2", "/tests/e2e/slow8.toml", "2x4", ""},
    {"/tests/models/densenet_tiny.pt2", "/tests/e2e/slow8.toml", "2x4", ""},
    {"/tests/models/resnet_tiny.pt2", "/tests/e2e/slow8.toml", "8", ""},
};

Plan plan_with(const ReduceCase& of, const std::vector<std::string>& set) {
  host::PlanOptions options;
  options.model = std::string(SOURCE_FOLDER) + of.model;
  options.cluster = std::string(SOURCE_FOLDER) + of.cluster;
  options.mesh = of.mesh;
  options.memory_budget = of.budget;
  options.set = set;
  options.set.push_back("search.step_rounds=0");
  const Result<host::PlanOutcome> outcome = test::plan(options);
  EXPECT_TRUE(outcome.ok()) << of.model << ": " << outcome.error().message;
  EXPECT_TRUE(outcome.ok() && outcome->plan) << of.model;
  return outcome.ok() && outcome->plan ? *outcome->plan : Plan{};
}

TEST(Reduction, ChangesNoCostWhateverIsSwitchedOff) {
  for (const ReduceCase& of : kCases) {
    const Plan all = plan_with(of, {});
    EXPECT_EQ(all.status, SolveStatus::optimal) << of.model;
    const std::vector<std::vector<std::string>> switches = {
        {"search.reduce=dominance,contraction"},
        {"search.reduce=consistency,contraction"},
        {"search.reduce=consistency, dominance"},
        {"search.elimination.memo=false"},
        {"search.reduce=none"},
        {"search.reduce=none", "search.elimination.memo=false"},
    };
    for (const std::vector<std::string>& off : switches) {
      const Plan plan = plan_with(of, off);
      EXPECT_EQ(plan.objective_seconds, all.objective_seconds) << of.model << " with " << off.back();
      EXPECT_EQ(plan.status, SolveStatus::optimal) << of.model << " with " << off.back();
    }
  }
}

}  // namespace
}  // namespace meshwright
