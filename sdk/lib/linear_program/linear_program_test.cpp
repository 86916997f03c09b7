#include <gtest/gtest.h>

#include "integer_solver.h"
#include "marginal_program.h"
#include "message_bound.h"

namespace meshwright {
namespace {

StrategySpace pair_space() {
  StrategySpace space;
  space.nodes = {{"a", {3, 10}}, {"b", {1, 2}}};
  space.tables = {{2, 2, {kForbidden, 5, 6, 7}}};
  space.edges = {{0, 1, 0}};
  space.memory = {{0, 0, 2, {80, 10}}, {1, 1, 3, {5, 20}}};
  space.fixed_bytes = 4;
  return space;
}

TEST(MarginalProgram, HasAColumnForEachAllowedEntry) {
  const MarginalProgram made = make_marginal_program(pair_space(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(made.program.columns.size(), 4U + 3U);
  EXPECT_EQ(made.program.rows.size(), 2U + 4U);
  EXPECT_TRUE(made.constant == 3 + 1 + 5);
  EXPECT_EQ(made.round(std::vector<double>{0.2, 0.8, 0.5, 0.5, 0, 0, 0}), (std::vector<std::uint32_t>{1, 0}));
}

TEST(MarginalProgram, KeepsTheTimesThatCanBind) {
  const MarginalProgram made = make_marginal_program(pair_space(), 100);  // 104 at time 1; elsewhere less
  ASSERT_EQ(made.program.rows.size(), 2U + 4U + 1U);
  const LinearRow& row = made.program.rows.back();
  EXPECT_EQ(row.relation, Relation::at_most);
  EXPECT_EQ(row.right * made.bytes_per_unit, 96);
  EXPECT_EQ(row.entries.size(), 4U);
  EXPECT_EQ(make_marginal_program(pair_space(), 104).program.rows.size(), 2U + 4U);
}

TEST(MarginalProgram, SaysThatNothingIsAllowed) {
  StrategySpace space = pair_space();
  space.tables[0].costs.assign(4, kForbidden);
  EXPECT_TRUE(make_marginal_program(space, 100).infeasible);
}

TEST(MessageBound, IsExactOnAChain) {
  StrategySpace space = pair_space();
  space.nodes.push_back({"c", {0, 9, 4}});
  space.tables.push_back({2, 3, {8, 1, 3, 2, 9, 9}});
  space.edges.push_back({1, 2, 1});
  TickSum least = kForbidden;
  for (std::uint32_t a = 0; a < 2; ++a) {
    for (std::uint32_t b = 0; b < 2; ++b) {
      for (std::uint32_t c = 0; c < 3; ++c) {
        const std::vector<std::uint32_t> choice = {a, b, c};
        const Evaluation evaluation = evaluate(space, choice);
        if (evaluation.allowed) least = std::min(least, evaluation.cost);
      }
    }
  }
  const MessageBound found = message_bound(space, 10, 10);
  EXPECT_EQ(static_cast<std::int64_t>(found.bound), static_cast<std::int64_t>(least));
  EXPECT_TRUE(evaluate(space, found.choice).cost == least);
}

// Says the same of every program.
class Oracle final : public Engine {
 public:
  explicit Oracle(EngineAnswer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] std::string name() const override { return "oracle"; }
  [[nodiscard]] double relative_margin() const override { return 0; }
  [[nodiscard]] double absolute_margin() const override { return 0; }
  [[nodiscard]] EngineAnswer run(const LinearProgram&, bool, const EngineLimits&) const override { return answer_; }

 private:
  EngineAnswer answer_;
};

Assignment solve_under_100(const EngineAnswer& answer) {
  const std::vector<std::int64_t> budgets = {100};  // a = 0 and b = 1, the cheapest at 10, need 104
  return solve_integer_program(Oracle(answer), pair_space(), budgets, {}, 1000).front();
}

TEST(IntegerSolver, OfAFailedEngineHasTheLocalSearchsAnswerAndTheMessagesBound) {
  const Assignment answer = solve_under_100({});
  EXPECT_EQ(answer.status, SolveStatus::bounded);
  EXPECT_EQ(answer.choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_TRUE(answer.cost == 17 && answer.lower_bound == 10);
  EXPECT_FALSE(answer.cut_off_by_clock);
}

TEST(IntegerSolver, SaysThatTheEngineWasCutOff) {
  EngineAnswer cut;
  cut.status = EngineAnswer::Status::stopped;
  cut.cut_off_by_clock = true;
  const Assignment answer = solve_under_100(cut);
  EXPECT_TRUE(answer.cut_off_by_clock);
  EXPECT_EQ(answer.status, SolveStatus::bounded);
}

TEST(IntegerSolver, BelievesNoEngineThatAChoiceIsCheaperThanItIs) {
  EngineAnswer wrong;
  wrong.status = EngineAnswer::Status::optimal;
  wrong.values.assign(7, 1);  // rounds to a = 0, b = 0, which is forbidden
  wrong.objective = 3;        // and 9 were taken off
  const Assignment answer = solve_under_100(wrong);
  EXPECT_EQ(answer.status, SolveStatus::bounded);
  EXPECT_EQ(answer.choice, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_TRUE(answer.cost == 17 && answer.lower_bound == 12);
}

}  // namespace
}  // namespace meshwright
