// Graphs that are not chains: skips as in a U-Net, blocks in which all reads all as in a DenseNet, an encoder whose output
// all of a decoder reads. What a solver says of its answer must be so, whichever way it took, and it says which.
#include <gtest/gtest.h>

#include "load_solver.h"
#include "random_space.h"

namespace meshwright::agreement {
namespace {

constexpr std::int64_t kNarrow = 1000;  // entries of a table, so that what is not a tree is too wide for elimination

struct Solver {
  const char* id;
  std::int64_t max_table_entries = 0;  // the default, if 0
  bool two_threads = false;
  std::int64_t max_columns = 0;  // likewise
};

std::vector<Solver> solvers() {
  std::vector<Solver> all = {{"elimination"}, {"elimination", kNarrow}, {"elimination", kNarrow, true}, {"ilp_lp_solve"}, {"ilp_cbc"}};
#ifdef MESHWRIGHT_WITH_HIGHS
  all.push_back({"ilp_highs"});
#endif
  return all;
}

std::vector<Assignment> solve(const Solver& of, const StrategySpace& space, const std::vector<std::int64_t>& budgets, std::int64_t work) {
  Config config;
  if (of.max_table_entries > 0) config.set("max_table_entries", of.max_table_entries);
  if (of.max_columns > 0) config.set("max_columns", of.max_columns);
  if (of.two_threads) config.set("threads", std::int64_t{2});
  SearchLimits limits;
  limits.work_limit = work;
  limits.deadline_seconds = 1e6;
  const auto answers = load_solver(of.id, config)->solve(space, budgets, limits);
  EXPECT_TRUE(answers.ok()) << of.id << ": " << answers.error().message;
  return answers.ok() ? *answers : std::vector<Assignment>(budgets.size());
}

bool is_proven(const Assignment& answer) { return answer.status == SolveStatus::optimal || answer.status == SolveStatus::infeasible; }

// What must be so of an answer by itself.
void expect_sound(const StrategySpace& space, std::int64_t budget, const Assignment& answer, const std::string& where) {
  EXPECT_FALSE(answer.method.empty()) << where;
  EXPECT_FALSE(answer.cut_off_by_clock) << where;
  if (answer.status == SolveStatus::infeasible) {
    EXPECT_TRUE(answer.least_bytes == 0 || answer.least_bytes > budget) << where;
    return;
  }
  if (answer.choice.empty()) return;
  const Evaluation evaluation = evaluate(space, answer.choice);
  EXPECT_TRUE(evaluation.allowed && evaluation.cost == answer.cost) << where;
  EXPECT_LE(evaluation.peak_bytes, budget) << where;
  EXPECT_TRUE(answer.lower_bound <= answer.cost) << where;
  EXPECT_EQ(answer.status == SolveStatus::optimal, answer.lower_bound == answer.cost) << where;
  EXPECT_EQ(answer.status == SolveStatus::heuristic, answer.lower_bound == 0 && answer.cost > 0) << where;
}

// And of two answers to the same question.
void expect_compatible(const Assignment& a, const Assignment& b, const std::string& where) {
  if (a.status == SolveStatus::infeasible) {
    EXPECT_TRUE(b.choice.empty()) << where;
    return;
  }
  if (!b.choice.empty()) {
    EXPECT_TRUE(a.lower_bound <= b.cost) << where;
  }
}

// Large spaces are given to an engine only if messages leave little of them: engines count work, if at all, coarsely.
std::vector<Solver> counting_solvers() {
  return {{"elimination"}, {"elimination", kNarrow}, {"elimination", kNarrow, true}, {"ilp_cbc", 0, false, 3000}};
}

using Make = StrategySpace (*)(std::uint64_t seed);
struct Shape {
  const char* name;
  Make small;  // enough to try every choice
  Make large;
  std::uint64_t nodes;  // of the large one
  bool narrow;          // whether the large one can be eliminated
};

const Shape kShapes[] = {
    {"UNet", [](std::uint64_t seed) { return unet_space(seed, 3, 3); }, [](std::uint64_t seed) { return unet_space(seed, 40, 24); }, 81, true},
    {"DenseNet", [](std::uint64_t seed) { return densenet_space(seed, 2, 3, 3); },
     [](std::uint64_t seed) { return densenet_space(seed, 4, 12, 12); }, 49, false},
    {"EncoderDecoder", [](std::uint64_t seed) { return encoder_decoder_space(seed, 2, 2); },
     [](std::uint64_t seed) { return encoder_decoder_space(seed, 24, 16); }, 98, true},
    {"RandomDag", [](std::uint64_t seed) { return random_dag_space(seed, 8, 3, 6); },
     [](std::uint64_t seed) { return random_dag_space(seed, 200, 10, 40); }, 200, false},
};

class Graphs : public testing::TestWithParam<Shape> {};

TEST_P(Graphs, SmallOnesAgreeWithTheOracle) {
  int proven = 0;
  int infeasible = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const StrategySpace space = GetParam().small(seed);
    const std::int64_t peak = solve({"exhaustive"}, space, {kNoBudget}, 4'000'000'000).front().peak_bytes;
    const std::vector<std::int64_t> budgets = {peak / 4, peak / 2, peak * 3 / 4, peak * 9 / 10, kNoBudget};
    const std::vector<Assignment> best = solve({"exhaustive"}, space, budgets, 4'000'000'000);
    for (const Solver& solver : solvers()) {
      const std::vector<Assignment> answers = solve(solver, space, budgets, 4'000'000);
      for (std::size_t i = 0; i < budgets.size(); ++i) {
        const std::string where = std::string(solver.id) + ", seed " + std::to_string(seed) + ", budget " + std::to_string(budgets[i]) + ": " + answers[i].method;
        expect_sound(space, budgets[i], answers[i], where);
        expect_compatible(answers[i], best[i], where);
        expect_compatible(best[i], answers[i], where);
        if (!is_proven(answers[i])) continue;
        ++proven;
        infeasible += answers[i].status == SolveStatus::infeasible ? 1 : 0;
        EXPECT_EQ(name(answers[i].status), name(best[i].status)) << where;
        EXPECT_TRUE(answers[i].status == SolveStatus::infeasible || answers[i].cost == best[i].cost) << where;
      }
    }
  }
  EXPECT_GT(proven, 12 * 5 * 5 * 8 / 10);
  EXPECT_GT(infeasible, 12);
}

TEST_P(Graphs, LargeOnesAreSolvedBySeveralMethodsThatDoNotContradictEachOther) {
  constexpr std::int64_t kWork = 60'000'000;
  const StrategySpace space = GetParam().large(1);
  ASSERT_EQ(space.nodes.size(), GetParam().nodes);
  const Assignment free = solve({"elimination"}, space, {kNoBudget}, kWork).front();
  ASSERT_FALSE(free.choice.empty()) << free.method;
  EXPECT_EQ(GetParam().narrow, free.method.starts_with("elimination, width ")) << free.method;
  EXPECT_EQ(!GetParam().narrow, free.method.find("message passing") != std::string::npos) << free.method;
  if (GetParam().narrow) {
    EXPECT_EQ(name(free.status), "optimal") << free.method;
  }
  const std::vector<std::int64_t> budgets = {1000, free.peak_bytes * 7 / 10, free.peak_bytes * 9 / 10, kNoBudget};
  std::vector<std::vector<Assignment>> all;
  for (const Solver& solver : counting_solvers()) {
    std::vector<Assignment> answers;
    for (const std::int64_t budget : budgets) answers.push_back(solve(solver, space, {budget}, kWork).front());
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const std::string where = std::string(solver.id) + ", budget " + std::to_string(budgets[i]) + ": " + answers[i].method;
      expect_sound(space, budgets[i], answers[i], where);
      for (const std::vector<Assignment>& others : all) {
        expect_compatible(answers[i], others[i], where + " against " + others[i].method);
        expect_compatible(others[i], answers[i], where + " against " + others[i].method);
      }
    }
    EXPECT_EQ(name(answers.front().status), "infeasible") << solver.id << ": " << answers.front().method;
    EXPECT_FALSE(answers.back().choice.empty()) << solver.id;
    if (solver.max_table_entries > 0) {
      EXPECT_FALSE(answers.back().method.starts_with("elimination, width ")) << answers.back().method;
    }
    all.push_back(std::move(answers));
  }
  // One thread and two.
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    EXPECT_EQ(all[1][i].choice, all[2][i].choice) << budgets[i];
    EXPECT_TRUE(all[1][i].lower_bound == all[2][i].lower_bound) << budgets[i];
  }
}

TEST_P(Graphs, TheSameAnswerTwice) {
  const StrategySpace space = GetParam().large(2);
  const std::int64_t peak = solve({"elimination"}, space, {kNoBudget}, 30'000'000).front().peak_bytes;
  const std::vector<std::int64_t> budgets = {peak * 8 / 10, kNoBudget};
  for (const Solver& solver : counting_solvers()) {
    const std::vector<Assignment> once = solve(solver, space, budgets, 30'000'000);
    const std::vector<Assignment> again = solve(solver, space, budgets, 30'000'000);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      EXPECT_EQ(once[i].choice, again[i].choice) << solver.id << ": " << once[i].method;
      EXPECT_EQ(once[i].method, again[i].method);
      EXPECT_TRUE(once[i].lower_bound == again[i].lower_bound) << solver.id << ": " << once[i].method;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Graphs, testing::ValuesIn(kShapes), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace meshwright::agreement
