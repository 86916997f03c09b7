// `plan --top`: the best distinct plans, held against all combinations of what they may differ in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "distinct_plans.h"
#include "meshwright/atoms.h"
#include "meshwright/conversion.h"
#include "meshwright/frontend.h"
#include "meshwright/training_graph.h"
#include "planning.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;
using testing::Not;

// Three linear ops on one axis of eight devices, and four ways to treat each op and each weight. Plans have no programs
// here.
class DistinctPlans : public testing::Test {
 protected:
  void SetUp() override {
    mesh_.axes = {{8, 1e-6, 1e-10, "a"}};
    profile_.device.memory_bytes_per_second = profile_.device.vector_flops_per_second = 1e9;
    problem_ = build_problem(input_).value();
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      const Variable& variable = problem_.variables[i];
      const bool is_weight = variable.kind == VariableKind::parameter && graph_.type(variable.value).rank() == 2;
      if (!is_weight && (variable.kind != VariableKind::node || graph_.nodes[variable.node].op != "aten.linear")) continue;
      kinds_.push_back(i);
      std::set<std::string> kept;
      for (std::size_t s = 0; s < variable.set->strategies.size(); ++s) {
        const std::string one = treatment(variable.set->strategies[s]);
        if (kept.size() < 4) kept.insert(one);
        if (!kept.contains(one)) problem_.space.nodes[i].costs[s] = kForbidden;
      }
    }
  }

  Assignment best() const {
    const std::int64_t budgets[] = {kNoBudget};
    return solver_->solve(problem_.space, budgets, {}).value().front();
  }

  // What a strategy does, as far as it makes plans distinct.
  static std::string treatment(const Strategy& strategy) {
    std::string text;
    if (const NodeStrategy* node = strategy.node()) {
      for (const AxisChoice& choice : node->call.axes) {
        for (const int part : {static_cast<int>(choice.use), static_cast<int>(choice.factor), static_cast<int>(choice.atom), static_cast<int>(choice.group)}) {
          text += std::to_string(part) + " ";
        }
      }
      return text;
    }
    const ParameterStrategy& parameter = *strategy.parameter();
    const AtomShape whole = whole_dimensions({8, 8});
    for (const Layout& layout : {parameter.compute, parameter.stored.value, parameter.state}) text += to_string(layout, whole) + " ";
    return text;
  }

  // The least cost of each combination of treatments, ascending.
  void combine(std::size_t kind, std::vector<TickSum>& costs) {
    if (kind == kinds_.size()) {
      const Assignment answer = best();
      if (!answer.choice.empty()) costs.push_back(answer.cost);
      return;
    }
    std::vector<Ticks>& own = problem_.space.nodes[kinds_[kind]].costs;
    const std::vector<Ticks> before = own;
    const std::vector<Strategy>& strategies = problem_.variables[kinds_[kind]].set->strategies;
    std::set<std::string> treatments;
    for (const Strategy& strategy : strategies) treatments.insert(treatment(strategy));
    for (const std::string& chosen : treatments) {
      for (std::size_t s = 0; s < own.size(); ++s) own[s] = treatment(strategies[s]) == chosen ? before[s] : kForbidden;
      combine(kind + 1, costs);
    }
    own = before;
  }

  host::PluginHost host_ = test::open_host();
  const Graph graph_ = host_.create<Frontend>("frontend", "torch_export").value()->read(SOURCE_FOLDER "/tests/models/mlp_tiny.pt2").value();
  const std::unique_ptr<OpTable> ops_ = host_.op_table().value();
  const ModelAnalysis model_ = analyze_model(graph_, *ops_).value();
  const std::shared_ptr<ConversionSearch> conversions_ = host_.create<ConversionSearch>("conversions", "shortest_path").value();
  const std::shared_ptr<IntraSolver> solver_ = host_.create<IntraSolver>("intra", "elimination").value();
  const TrainingSettings training_{};
  Mesh mesh_;
  CostProfile profile_;
  const ProblemInput input_{{model_, training_, *ops_, profile_, *conversions_}, mesh_, {}};
  Problem problem_;
  std::vector<std::uint32_t> kinds_;  // each of one variable
};

TEST_F(DistinctPlans, AreTheCheapestCombinationsInTheirOrder) {
  ASSERT_EQ(kinds_.size(), 6U);
  std::vector<TickSum> all;
  combine(0, all);
  std::sort(all.begin(), all.end());
  ASSERT_GT(all.size(), 30U);

  const FittedSolver fitted(
      [this](const ModelProblem& model, std::int64_t budget, Effort) -> Result<Assignment> {
        const std::int64_t budgets[] = {budget};
        return solver_->solve(model.problem.space, budgets, {}).value().front();
      },
      [](const Plan&) -> Result<Program> { return infeasible("none"); });
  FittedPlan first = fitted.fit(input_, problem_, best(), kNoBudget).value();
  const std::vector<SpaceNode> nodes = problem_.space.nodes;
  const auto found = distinct_plans(fitted, input_, problem_, kNoBudget, std::move(first), 12, all.back() + 1).value();
  ASSERT_EQ(found.plans.size(), 12U);
  EXPECT_FALSE(found.cut_off);
  for (std::size_t i = 0; i < found.plans.size(); ++i) EXPECT_TRUE(found.plans[i].assignment.cost == all[i]) << i;
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(problem_.space.nodes[i].costs, nodes[i].costs);
}

class Top : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Outcome plan(const std::string& model, const std::string& options) const {
    return run_program("plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/slow8.toml -o " + folder_ + "/plan.json " + options);
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  const std::string folder_ = (std::filesystem::temp_directory_path() / ("top" + std::to_string(::getpid()))).string();
};

TEST_F(Top, WritesPlansRankedByTheSimulatedStepThatAllVerify) {
  const Outcome outcome = plan("gpt2_tiny", "--mesh 2x4 --top 3 --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json summary = json::parse(outcome.output);
  ASSERT_EQ(summary["next"].size(), 2U);
  double step = summary["step_seconds"];
  for (const json& next : summary["next"]) {
    EXPECT_GE(next["step_seconds"], step);
    step = next["step_seconds"];
    EXPECT_FALSE(next["differences"].empty());
  }
  ASSERT_EQ(files(), 3U);
  const double bound = summary["lower_bound_seconds"], step_bound = summary["step_lower_bound_seconds"];
  EXPECT_GT(step_bound, 0);
  for (const char* name : {"plan.json", "plan.2.json", "plan.3.json"}) {
    const json file = json::parse(std::ifstream(folder_ + "/" + name));
    EXPECT_EQ(file["status"] == "optimal", step_bound >= 0.999 * file["step_seconds"].get<double>()) << name;
    EXPECT_EQ(file["lower_bound_seconds"], bound) << name;
    EXPECT_EQ(file["step_lower_bound_seconds"], step_bound) << name;
    const Outcome verified = run_program("verify " + folder_ + "/" + name);
    EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  }
}

TEST_F(Top, RanksThePlansOfAllMeshes) {
  const Outcome one = plan("mlp_tiny", "--format json");
  const Outcome three = plan("mlp_tiny", "--top 3 --format json");
  ASSERT_EQ(three.exit_code, 0) << three.errors;
  const json best = json::parse(one.output), ranked = json::parse(three.output);
  std::vector<double> steps = {ranked["step_seconds"]};
  for (const json& next : ranked["next"]) steps.push_back(next["step_seconds"]);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  // The best plan of any mesh is a plan of its own: none that was left out is faster.
  for (const json& trial : ranked["meshes_tried"]) {
    const double step = trial["step_seconds"];
    EXPECT_TRUE(std::count(steps.begin(), steps.end(), step) > 0 || step >= steps.back()) << trial;
  }
  EXPECT_GE(best["step_seconds"], best["step_lower_bound_seconds"]);
}

TEST_F(Top, SaysWhatAnotherPlanDoesOtherwise) {
  const Outcome outcome = plan("mlp_tiny", "--mesh 8 --top 2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("The best distinct plans, by simulated step:"));
  EXPECT_THAT(plan("mlp_tiny", "--mesh 8").output, Not(HasSubstr("The best distinct plans")));
}

TEST_F(Top, TakesOneOrMore) {
  const Outcome outcome = plan("mlp_tiny", "--top 0");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--top"));
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace meshwright
