#include "reinforce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "placement_checks.h"
#include "placement_draw.h"

namespace meshwright {
namespace {

constexpr ReinforceSettings kQuick{7, 60, 10};

// Equal nodes one behind the other, each of which hands something on.
LoadProblem line_of(std::uint32_t nodes, std::uint32_t accelerators, double accelerator_bytes) {
  LoadProblem problem;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    LoadNode& node = problem.nodes.emplace_back();
    node.name = "n" + std::to_string(i);
    node.accelerator_seconds = 1;
    node.memory_bytes = 1;
    node.transfer_seconds = 0.01;
    node.group = i;
    if (i > 0) problem.edges.push_back({i - 1, i, 0});
  }
  problem.accelerators = accelerators;
  problem.accelerator_bytes = accelerator_bytes;
  return problem;
}

// The kernel evaluates what is claimed, so that all rules are kept; and no answer is better than the best of all.
TEST(Reinforce, KeepsTheRulesAndComesNearTheBest) {
  const Reinforce solver(kQuick);
  std::size_t feasible = 0, best = 0, open = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const LoadProblem problem = draw_load_problem(seed);
    const double least = best_objective(problem);
    const Result<PlacementAnswer> answer = solver.solve(problem);
    if (!answer) {
      EXPECT_NE(answer.error().message.find("which proves nothing"), std::string::npos) << answer.error().message;
      EXPECT_EQ(least, std::numeric_limits<double>::infinity()) << seed;  // of such small ones some placement was drawn
      ++open;
      continue;
    }
    if (answer->status == SolveStatus::infeasible) {
      EXPECT_EQ(least, std::numeric_limits<double>::infinity()) << seed;
      continue;
    }
    ++feasible;
    EXPECT_EQ(answer->status, SolveStatus::heuristic) << seed;
    EXPECT_GE(answer->objective, least * (1 - 1e-9)) << seed;
    EXPECT_LE(answer->objective, 1.5 * least) << seed;
    best += answer->objective <= least * (1 + 1e-9);
  }
  EXPECT_GT(feasible, 100U);
  EXPECT_GT(best, feasible * 9 / 10);
  RecordProperty("feasible", static_cast<int>(feasible));
  RecordProperty("best", static_cast<int>(best));
  RecordProperty("open", static_cast<int>(open));
}

TEST(Reinforce, IsTheSameForASeedAndAnotherOneForAnother) {
  LoadProblem problem = line_of(40, 6, 100);
  for (std::uint32_t i = 0; i < 40; ++i) problem.nodes[i].accelerator_seconds += 0.01 * i;
  const ReinforceFound once = reinforce(problem, {1, 20, 10}), again = reinforce(problem, {1, 20, 10}), other = reinforce(problem, {3, 20, 10});
  EXPECT_EQ(once.first_load, again.first_load);
  EXPECT_EQ(once.best_load, again.best_load);
  ASSERT_EQ(once.stages.size(), again.stages.size());
  for (std::size_t i = 0; i < once.stages.size(); ++i) EXPECT_EQ(once.stages[i].nodes, again.stages[i].nodes);
  EXPECT_NE(once.first_load, other.first_load);
  EXPECT_EQ(once.drawn, 200);
}

// What is drawn becomes better, and not by drawing more alone.
TEST(Reinforce, Learns) {
  const LoadProblem problem = line_of(64, 8, 1000);
  const ReinforceFound found = reinforce(problem, {3, 200, 10});
  EXPECT_LT(found.best_load, found.first_load / 1.5);
  EXPECT_LT(found.best_load, 1.25 * 8);  // of 8 nodes on each
  PlacementDraw draw(problem);
  PlacementPolicy untrained(draw.rows(), draw.devices());
  SplitMix numbers{3};
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < found.drawn; ++i) {
    ASSERT_TRUE(draw.draw(untrained, numbers));
    untrained.add_gradient(0);
    best = std::min(best, draw.load());
  }
  EXPECT_LT(found.best_load, best);
}

// Two nodes on each of so many devices are all that there is room for.
TEST(Reinforce, RepairsWhatHasNoRoom) {
  const LoadProblem problem = line_of(16, 8, 2);
  const ReinforceFound found = reinforce(problem, {1, 1, 10});
  EXPECT_EQ(found.broken, 0);
  EXPECT_EQ(found.stages.size(), 8U);
  EXPECT_TRUE(evaluate(PlacementProblem(problem), found.stages).ok());
}

TEST(Reinforce, SaysWhyNothingFits) {
  const Reinforce solver(kQuick);
  const auto binding = [&](const LoadProblem& problem) {
    const Result<PlacementAnswer> answer = solver.solve(problem);
    return answer && answer->status == SolveStatus::infeasible ? answer->binding : "";
  };
  LoadProblem problem = line_of(16, 8, 1.5);
  EXPECT_EQ(binding(problem), "8 accelerators of 1 bytes hold less than all nodes");
  problem.accelerators = 15;
  EXPECT_EQ(binding(problem), "15 accelerators of 1 bytes hold no contiguous stages of all nodes, which need 16");
  problem.nodes[3].memory_bytes = 2;
  EXPECT_NE(binding(problem).find("node 'n3', with those of its group, is larger than one"), std::string::npos);
  problem.nodes[2].accelerator = false;
  EXPECT_EQ(binding(problem), "node 'n2' must be on a host, and there is none");
  problem.hosts = 1;
  EXPECT_EQ(binding(problem), "");
}

// Three nodes, each larger than half a device, on two of them: no count of bytes says that they do not fit.
TEST(Reinforce, ProvesNothingByDrawing) {
  LoadProblem problem = line_of(3, 2, 4);
  problem.edges.clear();
  for (LoadNode& node : problem.nodes) node.memory_bytes = 2.5;
  expect_refused(Reinforce(kQuick), problem, "which proves nothing");
}

TEST(Reinforce, RefusesByName) {
  expect_refused(Reinforce(kQuick), draw_replica_problem(1), "reinforce does not solve this problem");
  LoadProblem problem = line_of(10'000, 1000, 1e9);
  expect_refused(Reinforce(kQuick), problem, "take fewer devices");
}

}  // namespace
}  // namespace meshwright
