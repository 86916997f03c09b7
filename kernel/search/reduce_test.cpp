#include "meshwright/reduce.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

StrategySpace chain(std::vector<std::vector<Ticks>> costs, std::vector<CostTable> tables) {
  StrategySpace space;
  for (std::size_t i = 0; i < costs.size(); ++i) space.nodes.push_back({"n" + std::to_string(i), costs[i]});
  space.tables = std::move(tables);
  for (std::uint32_t i = 0; i + 1 < space.nodes.size(); ++i) space.edges.push_back({i, i + 1, i});
  return space;
}

ReduceOptions only(bool ReduceOptions::*what) {
  ReduceOptions options;
  options.consistency = options.dominance = options.folding = false;
  options.*what = true;
  return options;
}

std::vector<std::size_t> sizes(const Reduction& reduction) {
  std::vector<std::size_t> result;
  for (const SpaceNode& node : reduction.space.nodes) result.push_back(node.costs.size());
  return result;
}

TEST(Reduce, DropsForbiddenStrategiesWhateverTheOptions) {
  ReduceOptions none = only(&ReduceOptions::folding);
  none.folding = false;
  const Reduction reduction = reduce(chain({{1, kForbidden, 2}, {1, 1}}, {{3, 2, {1, 2, 3, 4, 5, 6}}}), none);
  EXPECT_EQ(sizes(reduction), (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(reduction.space.tables[0].costs, (std::vector<Ticks>{1, 2, 5, 6}));
  EXPECT_EQ(reduction.lift({1, 0}), (std::vector<std::uint32_t>{2, 0}));
}

TEST(Reduce, ConsistencyRunsAlongAChain) {
  constexpr Ticks no = kForbidden;
  const StrategySpace space = chain({{0, 0}, {0, 0}, {0, 0}}, {{2, 2, {0, no, no, 0}}, {2, 2, {no, no, 0, 0}}});
  const Reduction reduction = reduce(space, only(&ReduceOptions::consistency));
  EXPECT_EQ(sizes(reduction), (std::vector<std::size_t>{1, 1, 2}));
  EXPECT_EQ(reduction.lift({0, 0, 1}), (std::vector<std::uint32_t>{1, 1, 1}));
}

TEST(Reduce, FindsThatNothingIsAllowed) {
  const Reduction reduction = reduce(chain({{0, 0}, {0}}, {{2, 1, {kForbidden, kForbidden}}}));
  EXPECT_TRUE(reduction.infeasible);
}

TEST(Reduce, AStrategyThatIsNeverBetterGoesUnlessItHoldsLess) {
  StrategySpace space = chain({{0, 5}, {0, 0}}, {{2, 2, {1, 2, 1, 2}}});
  EXPECT_EQ(sizes(reduce(space, only(&ReduceOptions::dominance))), (std::vector<std::size_t>{1, 1}));
  space.memory = {{0, 0, 1, {10, 9}}, {1, 0, 1, {1, 1}}};
  EXPECT_EQ(sizes(reduce(space, only(&ReduceOptions::dominance))), (std::vector<std::size_t>{2, 1}));
}

TEST(Reduce, OfEqualStrategiesTheFirstStays) {
  const Reduction reduction =
      reduce(chain({{3, 3, 3}, {0, 1}}, {{3, 2, {1, 0, 1, 0, 1, 0}}}), only(&ReduceOptions::dominance));
  ASSERT_EQ(sizes(reduction)[0], 1U);
  EXPECT_EQ(reduction.kept[0].strategies, (std::vector<std::uint32_t>{0}));
}

TEST(Reduce, AWorkLimitLeavesDominanceOut) {
  ReduceOptions options = only(&ReduceOptions::dominance);
  options.dominance_work_limit = 7;  // the comparison takes 2 * 2 * 2 steps
  EXPECT_EQ(sizes(reduce(chain({{0, 5}, {0, 0}}, {{2, 2, {1, 2, 1, 2}}}), options)), (std::vector<std::size_t>{2, 2}));
}

TEST(Reduce, AChainWithoutMemoryFoldsAwayAndKeepsItsCost) {
  const StrategySpace space = chain({{4, 1}, {0, 2}, {7, 3, 5}}, {{2, 2, {0, 9, 9, 4}}, {2, 3, {1, 2, 8, 6, 0, 9}}});
  const Reduction reduction = reduce(space, only(&ReduceOptions::folding));
  EXPECT_TRUE(reduction.space.nodes.empty());
  Assignment answer;
  answer.status = SolveStatus::optimal;
  const Assignment lifted = reduction.lift(space, answer);
  EXPECT_EQ(static_cast<std::int64_t>(lifted.cost), 9);  // 4 + 0 + 0 + 2 + 3
  EXPECT_TRUE(lifted.lower_bound == lifted.cost);
}

TEST(Reduce, AnswersThatAreNotChoicesPassThrough) {
  const StrategySpace space = chain({{4, 1}, {0, 2}}, {{2, 2, {0, 9, 9, 4}}});
  const Reduction reduction = reduce(space);
  Assignment answer;
  answer.status = SolveStatus::infeasible;
  answer.binding = "why";
  EXPECT_EQ(reduction.lift(space, answer).binding, "why");
}

TEST(Reduce, ParallelEdgesAddInEitherDirection) {
  StrategySpace space = chain({{0, 0}, {0, 0, 0}}, {{2, 3, {1, 2, 3, 4, 5, 6}}});
  space.tables.push_back({3, 2, {10, 40, 20, 50, 30, 60}});
  space.edges.push_back({1, 0, 1});
  ReduceOptions none = only(&ReduceOptions::folding);
  none.folding = false;
  const Reduction reduction = reduce(space, none);
  ASSERT_EQ(reduction.space.edges.size(), 1U);
  EXPECT_EQ(reduction.space.tables[0].costs, (std::vector<Ticks>{11, 22, 33, 44, 55, 66}));
}

TEST(Reduce, LeavesSumsAloneThatCouldPassForForbidden) {
  const StrategySpace space = chain({{kForbidden - 1}, {kForbidden - 1}}, {{1, 1, {0}}});
  const Reduction reduction = reduce(space);
  EXPECT_EQ(reduction.space.nodes.size(), 2U);
  EXPECT_EQ(reduction.lift({0, 0}), (std::vector<std::uint32_t>{0, 0}));
}

TEST(Reduce, ContractsFunctionalEdges) {
  // b is what a is; c hangs on b, and all hold memory. So b goes, and c hangs on a.
  StrategySpace space;
  space.nodes = {{"a", {1, 2}}, {"b", {10, 20}}, {"c", {5, 5}}};
  space.tables = {{2, 2, {kForbidden, 3, 4, kForbidden}}, {2, 2, {0, 9, 8, 1}}};
  space.edges = {{0, 1, 0}, {1, 2, 1}};
  space.memory = {{0, 0, 2, {1, 2}}, {1, 0, 2, {10, 20}}, {2, 1, 3, {7, 8}}};
  ReduceOptions options;
  options.dominance = false;
  const Reduction reduction = reduce(space, options);
  ASSERT_EQ(reduction.space.nodes.size(), 2U);
  EXPECT_EQ(reduction.space.nodes[0].costs, (std::vector<Ticks>{1 + 20 + 3, 2 + 10 + 4}));
  ASSERT_EQ(reduction.space.edges.size(), 1U);
  EXPECT_EQ(reduction.space.memory[0].bytes, (std::vector<std::int64_t>{1 + 20, 2 + 10}));
  for (const std::vector<std::uint32_t>& choice : {std::vector<std::uint32_t>{0, 1}, {1, 0}}) {
    const std::vector<std::uint32_t> lifted = reduction.lift(choice);
    EXPECT_EQ(lifted, (std::vector<std::uint32_t>{choice[0], 1 - choice[0], choice[1]}));
    const Evaluation reduced = evaluate(reduction.space, choice);
    const Evaluation original = evaluate(space, lifted);
    EXPECT_TRUE(original.allowed);
    EXPECT_TRUE(reduced.cost + reduction.constant == original.cost);
    EXPECT_EQ(reduced.peak_bytes, original.peak_bytes);
  }
}

TEST(Reduce, KeepsASmallNodeThatSeparatesLargerOnes) {
  StrategySpace space;
  space.nodes = {{"a", {0, 0, 0}}, {"b", {0, 0}}, {"c", {0, 0, 0}}};
  space.tables = {{3, 2, {0, kForbidden, 0, kForbidden, kForbidden, 0}}, {2, 3, {1, 2, 3, 3, 2, 1}}};
  space.edges = {{0, 1, 0}, {1, 2, 1}};
  space.memory = {{0, 0, 1, {1, 2, 3}}, {1, 0, 1, {1, 2}}, {2, 0, 1, {1, 2, 3}}};
  ReduceOptions options;
  options.dominance = false;
  EXPECT_EQ(reduce(space, options).space.nodes.size(), 3U);
}

}  // namespace
}  // namespace meshwright
