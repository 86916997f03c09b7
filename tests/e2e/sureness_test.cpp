// How sure a plan is: its runner-up, and the factors at which that one wins, held against both plans simulated on such a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "break_even.h"
#include "folder_test.h"
#include "meshwright/timeline.h"
#include "planned_program.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;
using testing::Not;

// Of a plan's program, if the cluster were this one.
double step_on(const test::PlannedProgram& planned, const Cluster& cluster) {
  Program program = planned.program;
  std::vector<std::int64_t> shape;
  for (const MeshAxis& axis : program.mesh.axes) shape.push_back(axis.size);
  program.mesh = make_mesh(cluster, shape).value();
  CostProfile profile = planned.tools.profile;
  profile.device = cluster.device;
  return make_timeline(program, *planned.tools.ops, profile)->step_seconds;
}

// With what the break-even is of scaled by a factor.
Cluster changed(Cluster cluster, const BreakEven& one, double factor) {
  DeviceSpec& device = cluster.device;
  for (LinkLevel& level : cluster.levels) {
    if (level.name != one.level) continue;
    (one.coefficient == CostCoefficient::link_bandwidth ? level.bytes_per_second : level.latency_seconds) *= factor;
  }
  if (one.coefficient == CostCoefficient::product_rate) device.matrix_efficiency *= factor;
  if (one.coefficient == CostCoefficient::memory_bandwidth) device.memory_efficiency *= factor;
  return cluster;
}

class Sureness : public test::FolderTest {
 protected:
  static host::PlanOptions options(const std::string& model, int top) {
    host::PlanOptions options;
    options.model = test::tiny(model);
    options.cluster = TEST_FOLDER "/slow8.toml";
    options.top = top;
    return options;
  }
};

TEST_F(Sureness, TheRunnerUpWinsFromTheFactorOnAndNotBefore) {
  int turned = 0;
  for (const char* model : {"gpt2_tiny", "vit_tiny"}) {
    Result<host::PlanOutcome> outcome = test::plan(options(model, 3));
    ASSERT_TRUE(outcome && outcome->plan) << model;
    // One of the same step, tick by tick, is no other plan.
    const double step = outcome->plan->step_seconds;
    const auto next = std::ranges::find_if(outcome->next, [&](const Plan& plan) { return plan.step_seconds > step; });
    ASSERT_NE(next, outcome->next.end()) << model;
    ASSERT_TRUE(outcome->plan->runner_up) << model;
    const RunnerUp said = *outcome->plan->runner_up;
    EXPECT_EQ(said.mesh, to_string(next->mesh));
    EXPECT_EQ(said.step_seconds, next->step_seconds);
    EXPECT_EQ(said.objective_seconds, next->objective_seconds);
    const Cluster cluster = outcome->plan->cluster;
    const test::PlannedProgram first = test::program_of(std::move(*outcome->plan)).value(), second = test::program_of(std::move(*next)).value();
    ASSERT_LT(step_on(first, cluster), step_on(second, cluster)) << model;
    for (const BreakEven& one : said.break_evens) {
      if (!one.factor) {
        for (const double end : {kLeastFactor, kMostFactor}) {
          const bool is_efficiency = one.coefficient == CostCoefficient::product_rate || one.coefficient == CostCoefficient::memory_bandwidth;
          if (is_efficiency && end > 1) continue;  // they are 1 there
          const Cluster there = changed(cluster, one, end);
          EXPECT_GE(step_on(second, there), step_on(first, there)) << model << " " << static_cast<int>(one.coefficient) << one.level << " " << end;
        }
        continue;
      }
      ++turned;
      const Cluster there = changed(cluster, one, *one.factor), before = changed(cluster, one, std::pow(*one.factor, 0.98));
      EXPECT_LT(step_on(second, there), step_on(first, there)) << model << " " << static_cast<int>(one.coefficient) << one.level;
      EXPECT_GE(step_on(second, before), step_on(first, before)) << model << " " << static_cast<int>(one.coefficient) << one.level;
    }
  }
  EXPECT_GE(turned, 4);
}

// Where one plan is asked for, a neighbour of it or the best plan of another mesh is its runner-up.
TEST_F(Sureness, APlanHasARunnerUpWithoutAskingForTwo) {
  for (const char* mesh : {"8", "2x4", ""}) {
    host::PlanOptions one = options("gpt2_tiny", 1);
    one.mesh = mesh;
    const Result<host::PlanOutcome> outcome = test::plan(one);
    ASSERT_TRUE(outcome && outcome->plan && outcome->plan->runner_up) << mesh;
    const RunnerUp& said = *outcome->plan->runner_up;
    EXPECT_TRUE(outcome->next.empty());
    if (said.mesh == to_string(outcome->plan->mesh)) {
      EXPECT_FALSE(said.differences.empty()) << mesh;
      EXPECT_GE(said.objective_seconds, outcome->plan->objective_seconds) << mesh;
    }
    EXPECT_EQ(said.break_evens.size(), 6U);  // two bandwidths, two latencies, products and memory; its host takes no time
  }
}

TEST_F(Sureness, NoOtherPlanIsFoundWhereNobodyAsks) {
  host::PlanOptions one = options("gpt2_tiny", 1);
  const Result<host::PlanOutcome> with = test::plan(one);
  one.set = {"search.sure=false"};
  const Result<host::PlanOutcome> without = test::plan(one);
  ASSERT_TRUE(with && without);
  EXPECT_FALSE(without->plan->runner_up);
  EXPECT_EQ(with->plan->step_seconds, without->plan->step_seconds);
}

TEST_F(Sureness, ThePlanItsFileAndExplainSayTheSame) {
  const std::string plan = "plan " SOURCE_FOLDER "/tests/models/mlp_tiny.pt2 --cluster " TEST_FOLDER "/slow8.toml --top 2 -o " + path("plan.json");
  const Outcome planned = run_program(plan + " --format json");
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  const json summary = json::parse(planned.output), file = json::parse(std::ifstream(path("plan.json")));
  const Outcome explained = run_program("explain " + path("plan.json") + " --format json");
  ASSERT_EQ(explained.exit_code, 0) << explained.errors;
  ASSERT_TRUE(summary.contains("runner_up"));
  EXPECT_EQ(summary["runner_up"], file["runner_up"]);
  EXPECT_EQ(summary["runner_up"], json::parse(explained.output)["runner_up"]);
  const json again = json::parse(run_program(plan + " --format json").output);
  EXPECT_EQ(again["runner_up"], summary["runner_up"]);
  // The second plan of a ranking says nothing of a third.
  EXPECT_FALSE(json::parse(std::ifstream(path("plan.2.json"))).contains("runner_up"));

  const std::string report = run_program(plan).output, explanation = run_program("explain " + path("plan.json")).output;
  const std::size_t at = report.find("The second best distinct plan (mesh ");
  ASSERT_NE(at, std::string::npos) << report;
  EXPECT_THAT(explanation, HasSubstr(report.substr(at, report.find("\n\n", at) - at)));
  EXPECT_THAT(run_program("explain " + path("plan.json") + " linear").output, Not(HasSubstr("second best")));
}

}  // namespace
}  // namespace meshwright
