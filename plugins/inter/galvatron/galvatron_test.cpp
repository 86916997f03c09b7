#include "galvatron.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "placement_checks.h"

namespace meshwright {
namespace {

constexpr double kNoStages = std::numeric_limits<double>::infinity();

// Small whole numbers, so that many answers tie and memory often binds.
MenuProblem draw_menu_problem(std::uint32_t seed) {
  std::mt19937 numbers(seed);
  const auto upto = [&](std::uint32_t most) { return static_cast<double>(numbers() % (most + 1)); };
  MenuProblem problem;
  const std::size_t nodes = 1 + numbers() % 4;
  for (std::size_t i = 0; i < nodes; ++i) problem.nodes.push_back({std::to_string(i), upto(1)});
  for (const std::uint32_t stages : {1U, 2U, 4U}) {
    if (numbers() % 4 == 0 && !problem.menus.empty()) continue;
    Menu& menu = problem.menus.emplace_back();
    menu.stages = stages;
    const std::size_t entries = 1 + numbers() % 3;
    for (std::size_t e = 0; e < entries; ++e) {
      menu.entries.push_back({std::to_string(e), {}});
      for (std::size_t i = 0; i < nodes; ++i) menu.entries.back().nodes.push_back({upto(4), upto(4), upto(6), upto(4), upto(2), upto(2)});
    }
    for (std::size_t i = 0; i < (nodes - 1) * entries * entries; ++i) menu.change_seconds.push_back(upto(2));
  }
  problem.devices = 4;
  problem.microbatches = 1 + numbers() % 5;
  problem.device_bytes = 3 + upto(14);
  return problem;
}

// Of all cuts and all entries.
double best_of_menus(const MenuProblem& problem) {
  double best = kNoStages;
  const PlacementProblem any = problem;
  for (const Menu& menu : problem.menus) {
    std::vector<PlacementStage> stages(menu.stages);
    const std::function<void(std::uint32_t, std::uint32_t)> place = [&](std::uint32_t node, std::uint32_t stage) {
      if (node == problem.nodes.size()) {
        const Result<PlacementCost> cost = evaluate(any, stages);
        if (cost) best = std::min(best, cost->objective);
        return;
      }
      for (std::uint32_t here = stage; here < menu.stages; ++here) {
        for (std::uint32_t entry = 0; entry < menu.entries.size(); ++entry) {
          stages[here].nodes.push_back(node);
          stages[here].variants.push_back(entry);
          place(node + 1, here);
          stages[here].nodes.pop_back();
          stages[here].variants.pop_back();
        }
      }
    };
    for (PlacementStage& stage : stages) stage.tensor = problem.devices / menu.stages;
    place(0, 0);
  }
  return best;
}

TEST(Galvatron, FindsTheBestOfAllCutsAndEntries) {
  std::size_t feasible = 0, several = 0, unlike = 0;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    const MenuProblem problem = draw_menu_problem(seed);
    const double best = best_of_menus(problem);
    const Result<PlacementAnswer> answer = Galvatron().solve(problem);
    ASSERT_TRUE(answer.ok()) << seed << ": " << answer.error().message;
    if (answer->status == SolveStatus::infeasible) {
      EXPECT_EQ(best, kNoStages) << seed;
      EXPECT_NE(answer->binding, "");
      continue;
    }
    ++feasible;
    several += answer->stages.size() > 1;
    for (const PlacementStage& stage : answer->stages) unlike += stage.variants.front() != stage.variants.back();
    EXPECT_EQ(answer->status, SolveStatus::optimal) << seed;
    EXPECT_NEAR(answer->objective, best, 1e-9 * best) << seed;
  }
  EXPECT_GT(feasible, 200U);
  EXPECT_GT(several, 20U);
  EXPECT_GT(unlike, 20U);
}

// The second half of a line that only one entry leaves room for, and the change to it is paid once.
TEST(Galvatron, ChangesEntriesWhereMemoryBinds) {
  MenuProblem problem;
  Menu menu;
  menu.entries = {{"fast", {}}, {"small", {}}};
  for (std::uint32_t i = 0; i < 6; ++i) {
    problem.nodes.push_back({std::to_string(i), 0});
    menu.entries[0].nodes.push_back({1, 2, 0, 4, 0, 0});
    menu.entries[1].nodes.push_back({2, 4, 0, 1, 0, 0});
  }
  for (int i = 0; i < 5; ++i) menu.change_seconds.insert(menu.change_seconds.end(), {0, 0.5, 0.5, 0});
  problem.menus = {menu};
  problem.devices = 8;
  problem.microbatches = 3;
  problem.device_bytes = 15;
  const PlacementAnswer answer = Galvatron().solve(problem).value();
  EXPECT_DOUBLE_EQ(answer.objective, 3 * (3 * 3 + 3 * 6 + 0.5));
  ASSERT_EQ(answer.stages.size(), 1U);
  int changes = 0;
  for (std::size_t i = 1; i < 6; ++i) changes += answer.stages[0].variants[i] != answer.stages[0].variants[i - 1];
  EXPECT_EQ(changes, 1);
}

TEST(Galvatron, RefusesByName) {
  expect_refused(Galvatron(), draw_replica_problem(1), "galvatron does not solve this problem");
  MenuProblem problem = draw_menu_problem(1);
  problem.menus.front().change_seconds.push_back(0);
  expect_refused(Galvatron(), problem, "it must have seconds of a change");
  problem = draw_menu_problem(1);
  problem.menus.front().stages = 3;
  expect_refused(Galvatron(), problem, "that number must divide the 4 devices");
}

}  // namespace
}  // namespace meshwright
