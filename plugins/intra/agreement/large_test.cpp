// A transformer of 96 layers: too large for anything but a method that sees its structure. Work is counted, not timed.
#include <gtest/gtest.h>

#include "load_solver.h"
#include "meshwright/reduce.h"
#include "random_space.h"

namespace meshwright::agreement {
namespace {

constexpr std::int64_t kWork = 400'000'000;

class Large : public testing::Test {
 protected:
  Assignment solve(const StrategySpace& space, std::int64_t budget) {
    SearchLimits limits;
    limits.work_limit = kWork;
    limits.deadline_seconds = 1e6;
    const std::vector<std::int64_t> budgets = {budget};
    const auto answers = solver_->solve(space, budgets, limits);
    EXPECT_TRUE(answers.ok()) << answers.error().message;
    return answers.ok() ? answers->front() : Assignment{};
  }
  const StrategySpace space_ = transformer_space(1, 96, 30);
  std::unique_ptr<IntraSolver> solver_ = load_solver("elimination");
};

TEST_F(Large, IsProvenWithoutABudget) {
  const Assignment answer = solve(space_, kNoBudget);
  EXPECT_EQ(name(answer.status), "optimal") << answer.method;
}

TEST_F(Large, IsProvenUnderBudgets) {
  const Assignment free = solve(space_, kNoBudget);
  for (const int percent : {97, 85, 70}) {
    const Assignment answer = solve(space_, free.peak_bytes / 100 * percent);
    EXPECT_EQ(name(answer.status), "optimal")
        << percent << " %: " << answer.method << ", gap " << static_cast<double>(answer.cost - answer.lower_bound)
        << " of " << static_cast<double>(answer.cost);
    EXPECT_GE(static_cast<double>(answer.cost), static_cast<double>(free.cost));
  }
}

TEST_F(Large, IsProvenNotToFit) {
  const Assignment answer = solve(space_, 1'000'000'000);
  EXPECT_EQ(name(answer.status), "infeasible");
  EXPECT_GT(answer.least_bytes, 1'000'000'000);
}

TEST_F(Large, ReductionKeepsTheLeastCost) {
  const Reduction reduction = reduce(space_);
  ASSERT_FALSE(reduction.infeasible);
  const Assignment lifted = reduction.lift(space_, solve(reduction.space, kNoBudget));
  EXPECT_TRUE(lifted.cost == solve(space_, kNoBudget).cost);
}

TEST_F(Large, TablesBeyondTheLimitGiveABoundAndAChoice) {
  Config config;
  config.set("max_table_entries", std::int64_t{100});
  const Assignment exact = solve(space_, kNoBudget);
  solver_ = load_solver("elimination", config);
  const Assignment answer = solve(space_, kNoBudget);
  ASSERT_EQ(name(answer.status), "bounded");
  EXPECT_FALSE(answer.choice.empty());
  EXPECT_TRUE(answer.lower_bound <= exact.cost);
  EXPECT_TRUE(answer.cost >= exact.cost);
}

TEST_F(Large, WithoutWorkThereIsNoProof) {
  SearchLimits limits;
  limits.work_limit = 1000;
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const auto answers = solver_->solve(space_, budgets, limits);
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ(name(answers->front().status), "heuristic");
  EXPECT_FALSE(answers->front().cut_off_by_clock);
}

// 2,000 nodes of ten strategies, far too wide for elimination.
TEST(Wide, RandomDagIsBoundedAndTheSameEachTime) {
  const StrategySpace space = random_dag_space(1, 2000, 10, 200);
  const auto solver = load_solver("elimination");
  SearchLimits limits;
  limits.work_limit = kWork;
  limits.deadline_seconds = 1e6;
  const std::vector<std::int64_t> none = {kNoBudget};
  const auto free = solver->solve(space, none, limits);
  ASSERT_TRUE(free.ok()) << free.error().message;
  ASSERT_FALSE(free->front().choice.empty());
  const std::vector<std::int64_t> budgets = {free->front().peak_bytes * 3 / 4, kNoBudget};
  const auto first = solver->solve(space, budgets, limits);
  const auto second = solver->solve(space, budgets, limits);
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok()) << second.error().message;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const Assignment& answer = (*first)[i];
    EXPECT_EQ(name(answer.status), "bounded") << answer.method;
    EXPECT_NE(answer.method.find("message passing"), std::string::npos) << answer.method;
    ASSERT_FALSE(answer.choice.empty());
    EXPECT_FALSE(answer.cut_off_by_clock);
    EXPECT_LT(static_cast<double>(answer.cost), 1.5 * static_cast<double>(answer.lower_bound));
    EXPECT_EQ(answer.choice, (*second)[i].choice);
    EXPECT_TRUE(answer.lower_bound == (*second)[i].lower_bound);
  }
  EXPECT_TRUE((*first)[0].cost >= (*first)[1].lower_bound);
}

}  // namespace
}  // namespace meshwright::agreement
