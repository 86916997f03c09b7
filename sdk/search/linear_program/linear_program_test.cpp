#include <gtest/gtest.h>

#include "integer_solver.h"
#include "marginal_program.h"
#include "small_space.h"

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

// Says the same of every program.
class Oracle final : public Engine {
 public:
  explicit Oracle(EngineAnswer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] std::string name() const override { return "oracle"; }
  [[nodiscard]] double relative_margin() const override { return 0; }
  [[nodiscard]] double absolute_margin() const override { return 0; }
  [[nodiscard]] EngineAnswer run(const LinearProgram& program, bool, const EngineLimits&) const override {
    EngineAnswer answer = answer_;
    answer.values.resize(answer.values.empty() ? 0 : program.columns.size(),
                         answer.values.empty() ? 0 : answer.values[0]);
    return answer;
  }

 private:
  EngineAnswer answer_;
};

struct Tally {
  int optimal = 0, bounded = 0, cut_off = 0;
};

// Solves small spaces with it, without work for messages, and holds what is said against the truth.
Tally expect_honest(const EngineAnswer& says, std::int64_t work_limit = 0, std::int64_t max_columns = 1000) {
  Tally tally;
  SearchLimits limits;
  limits.work_limit = work_limit;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const StrategySpace space = small_space(seed);
    for (const std::int64_t budget : {20, 1000}) {
      const std::optional<TickSum> least = least_cost(space, budget);
      const std::vector<std::int64_t> budgets = {budget};
      const Assignment answer =
          solve_integer_program(Oracle(says), space, budgets, limits, {max_columns, true}).front();
      const std::string where =
          "seed " + std::to_string(seed) + ", budget " + std::to_string(budget) + ": " + answer.method;
      tally.optimal += answer.status == SolveStatus::optimal ? 1 : 0;
      tally.bounded += answer.status == SolveStatus::bounded ? 1 : 0;
      tally.cut_off += answer.cut_off_by_clock ? 1 : 0;
      if (answer.status == SolveStatus::infeasible) {
        EXPECT_FALSE(least) << where;
        continue;
      }
      EXPECT_TRUE(!least || answer.lower_bound <= *least) << where;
      if (answer.choice.empty()) continue;
      const Evaluation evaluation = evaluate(space, answer.choice);
      EXPECT_TRUE(evaluation.allowed && evaluation.peak_bytes <= budget && evaluation.cost == answer.cost) << where;
      EXPECT_EQ(answer.status == SolveStatus::optimal, answer.cost == answer.lower_bound) << where;
    }
  }
  return tally;
}

TEST(IntegerSolver, OfAFailedEngineHasAnotherAnswerAndTheMessagesBound) {
  const Tally tally = expect_honest({});
  EXPECT_GT(tally.bounded, 20);
  EXPECT_EQ(tally.cut_off, 0);
}

TEST(IntegerSolver, SaysThatTheEngineWasCutOff) {
  EngineAnswer cut;
  cut.status = EngineAnswer::Status::stopped;
  cut.cut_off_by_clock = true;
  const Tally tally = expect_honest(cut);
  EXPECT_GT(tally.cut_off, 20);
}

TEST(IntegerSolver, BelievesNoEngineThatAChoiceIsCheaperThanItIs) {
  EngineAnswer wrong;
  wrong.status = EngineAnswer::Status::optimal;
  wrong.values = {1};  // all columns: the first strategies, which may be forbidden or hold too much
  wrong.objective = 0;
  const Tally tally = expect_honest(wrong);
  EXPECT_GT(tally.bounded, 20);
}

TEST(IntegerSolver, TakesABoundWithoutAChoice) {
  EngineAnswer silent;
  silent.status = EngineAnswer::Status::optimal;
  EXPECT_GT(expect_honest(silent).bounded, 20);
}

TEST(IntegerSolver, ProvesSmallSpacesWithoutAnEngineToo) {
  const Tally tally = expect_honest({}, 4'000'000, 0);
  EXPECT_GT(tally.optimal, 20 * tally.bounded);
}

}  // namespace
}  // namespace meshwright
