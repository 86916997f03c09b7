// Every exact solver gives the same least cost, or the same "infeasible", on small random spaces; and reducing the
// space changes neither. The seed in a failure's message makes its space again.
#include <gtest/gtest.h>

#include <set>

#include "load_solver.h"
#include "meshwright/reduce.h"
#include "random_space.h"

namespace meshwright::agreement {
namespace {

constexpr std::uint64_t kSpaces = 300;

// None, the peak of the best choice, just below it, and down to what no choice fits in.
std::vector<std::int64_t> budgets_for(const StrategySpace& space, const IntraSolver& oracle) {
  const std::vector<std::int64_t> none = {kNoBudget};
  const auto best = oracle.solve(space, none, {});
  const std::vector<std::int64_t> zero = {0};
  const auto least = oracle.solve(space, zero, {});
  if (!best.ok() || best->front().status == SolveStatus::infeasible) return none;
  const std::int64_t most = best->front().peak_bytes;
  const std::int64_t fewest = least->front().status == SolveStatus::infeasible ? least->front().least_bytes : 0;
  std::set<std::int64_t> budgets = {most, kNoBudget, fewest, (most + fewest) / 2, fewest + (most - fewest) / 5};
  if (most > 0) budgets.insert(most - 1);
  if (fewest > 0) budgets.insert(fewest - 1);
  return {budgets.begin(), budgets.end()};
}

void expect_agreement(const Assignment& expected, const Assignment& actual, std::int64_t budget,
                      const std::string& where) {
  ASSERT_EQ(name(expected.status), name(actual.status)) << where << ": " << actual.method;
  if (expected.status == SolveStatus::infeasible) {
    EXPECT_EQ(expected.least_bytes == 0, actual.least_bytes == 0) << where;
    if (expected.least_bytes == 0) {
      EXPECT_EQ(expected.binding, actual.binding) << where;
    } else {
      EXPECT_GT(actual.least_bytes, budget) << where;
      EXPECT_LE(actual.least_bytes, expected.least_bytes) << where;
      EXPECT_TRUE(actual.binding.starts_with("needs at least ")) << where << ": " << actual.binding;
    }
    return;
  }
  EXPECT_EQ(static_cast<std::int64_t>(expected.cost), static_cast<std::int64_t>(actual.cost)) << where;
}

class Agreement : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<IntraSolver> oracle_ = load_solver("exhaustive");
  std::unique_ptr<IntraSolver> solver_ = load_solver(GetParam());
};

TEST_P(Agreement, WithTheOracle) {
  std::size_t infeasible = 0;
  std::size_t optimal = 0;
  for (std::uint64_t seed = 0; seed < kSpaces && !HasFatalFailure(); ++seed) {
    const StrategySpace space = random_space(seed);
    const std::vector<std::int64_t> budgets = budgets_for(space, *oracle_);
    const auto expected = oracle_->solve(space, budgets, {});
    const auto actual = solver_->solve(space, budgets, {});
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(actual.ok()) << "seed " << seed << ": " << actual.error().message;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      expect_agreement((*expected)[i], (*actual)[i], budgets[i],
                       "seed " + std::to_string(seed) + ", budget " + std::to_string(budgets[i]));
      ((*expected)[i].status == SolveStatus::infeasible ? infeasible : optimal) += 1;
    }
  }
  // The generator must keep making both kinds.
  EXPECT_GT(infeasible, kSpaces / 4);
  EXPECT_GT(optimal, kSpaces);
}

TEST_P(Agreement, WithTheOracleAfterReduction) {
  for (std::uint64_t seed = 0; seed < kSpaces && !HasFatalFailure(); ++seed) {
    const StrategySpace space = random_space(seed);
    const std::vector<std::int64_t> budgets = budgets_for(space, *oracle_);
    const auto expected = oracle_->solve(space, budgets, {});
    ASSERT_TRUE(expected.ok());
    ReduceOptions options;
    options.consistency = seed % 7 != 1;
    options.dominance = seed % 7 != 2;
    options.folding = seed % 7 != 3;
    const Reduction reduction = reduce(space, options);
    const std::string where = "seed " + std::to_string(seed);
    if (reduction.infeasible) {
      EXPECT_EQ(expected->back().status, SolveStatus::infeasible) << where;
      continue;
    }
    ASSERT_TRUE(validate(reduction.space).ok()) << where << ": " << validate(reduction.space).error().message;
    const auto reduced = solver_->solve(reduction.space, budgets, {});
    ASSERT_TRUE(reduced.ok()) << where << ": " << reduced.error().message;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const Assignment lifted = reduction.lift(space, (*reduced)[i]);
      expect_agreement((*expected)[i], lifted, budgets[i], where + ", budget " + std::to_string(budgets[i]));
      if (lifted.status == SolveStatus::infeasible) continue;
      EXPECT_TRUE(evaluate(space, lifted.choice).allowed) << where;
      EXPECT_LE(lifted.peak_bytes, budgets[i]) << where;
      EXPECT_TRUE(lifted.lower_bound == lifted.cost) << where;
    }
  }
}

// With tables of one entry nothing is narrow, and all is left to the wide search: it may not prove its answers, but
// what it says must be so.
TEST(WideAgreement, WithTheOracle) {
  const auto oracle = load_solver("exhaustive");
  Config config;
  config.set("max_table_entries", std::int64_t{1});
  const auto solver = load_solver("elimination", config);
  SearchLimits limits;
  limits.work_limit = 3'000'000;
  limits.deadline_seconds = 1e6;
  std::size_t optimal = 0;
  std::size_t all = 0;
  for (std::uint64_t seed = 0; seed < kSpaces && !testing::Test::HasFatalFailure(); ++seed) {
    const StrategySpace space = random_space(seed);
    const std::vector<std::int64_t> budgets = budgets_for(space, *oracle);
    const auto expected = oracle->solve(space, budgets, {});
    const auto actual = solver->solve(space, budgets, limits);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(actual.ok()) << "seed " << seed << ": " << actual.error().message;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const std::string where = "seed " + std::to_string(seed) + ", budget " + std::to_string(budgets[i]);
      const Assignment& best = (*expected)[i];
      const Assignment& answer = (*actual)[i];
      ++all;
      if (answer.status == SolveStatus::optimal || answer.status == SolveStatus::infeasible) {
        ++optimal;
        expect_agreement(best, answer, budgets[i], where);
        continue;
      }
      EXPECT_FALSE(answer.cut_off_by_clock) << where;
      if (best.status == SolveStatus::infeasible) {
        EXPECT_TRUE(answer.choice.empty()) << where;
        continue;
      }
      EXPECT_TRUE(answer.lower_bound <= best.cost) << where;
      EXPECT_TRUE(answer.choice.empty() || answer.cost >= best.cost) << where;
    }
  }
  EXPECT_GT(optimal * 10, all * 5);
}

TEST_P(Agreement, WithItselfToTheChoice) {
  for (std::uint64_t seed = 0; seed < kSpaces / 3; ++seed) {
    const StrategySpace space = random_space(seed);
    const std::vector<std::int64_t> budgets = budgets_for(space, *oracle_);
    const auto once = solver_->solve(space, budgets, {});
    const auto again = solver_->solve(space, budgets, {});
    ASSERT_TRUE(once.ok() && again.ok());
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      EXPECT_EQ((*once)[i].choice, (*again)[i].choice) << "seed " << seed << ", budget " << budgets[i];
      EXPECT_TRUE((*once)[i].lower_bound == (*again)[i].lower_bound) << "seed " << seed << ", budget " << budgets[i];
    }
  }
}

constexpr const char* kSolvers[] = {"elimination", "ilp_lp_solve", "ilp_cbc", "exhaustive",
#ifdef MESHWRIGHT_WITH_HIGHS  // is not in Debian, and left out where it is not installed
                                    "ilp_highs",
#endif
};
INSTANTIATE_TEST_SUITE_P(Solvers, Agreement, testing::ValuesIn(kSolvers),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright::agreement
