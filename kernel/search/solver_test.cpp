#include "meshwright/solver.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "meshwright/strategy.h"

namespace meshwright {
namespace {

StrategySpace one_node() {
  StrategySpace space;
  space.nodes = {{"a", {3, 8, kForbidden}}};
  space.memory = {{0, 0, 1, {50, 20, 1}}};
  return space;
}

Assignment chosen(std::uint32_t strategy, SolveStatus status, std::int64_t lower_bound) {
  Assignment answer;
  answer.status = status;
  answer.choice = {strategy};
  answer.lower_bound = lower_bound;
  return answer;
}

Assignment impossible(std::int64_t least_bytes) {
  Assignment answer;
  answer.status = SolveStatus::infeasible;
  answer.least_bytes = least_bytes;
  answer.binding = "something";
  return answer;
}

// Answers what the test tells it to.
class Scripted final : public IntraSolver {
 public:
  explicit Scripted(std::function<std::vector<Assignment>()> script) : script_(std::move(script)) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace&, std::span<const std::int64_t>,
                                           const SearchLimits&) const override {
    return script_();
  }
  std::function<std::vector<Assignment>()> script_;
};

// Says so of least costs.
class Bounding final : public IntraSolver {
 public:
  explicit Bounding(LeastCosts costs) : costs_(std::move(costs)) {}

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace&, std::span<const std::int64_t>, const SearchLimits&) const override { return std::vector<Assignment>(); }
  Result<LeastCosts> do_least_costs(const StrategySpace&, const SearchLimits&) const override { return costs_; }
  LeastCosts costs_;
};

Result<std::vector<Assignment>> solve(std::vector<Assignment> answers, std::vector<std::int64_t> budgets) {
  return Scripted([answers] { return answers; }).solve(one_node(), budgets, {});
}

TEST(Solve, RecomputesCostAndPeak) {
  const auto answers = solve({chosen(0, SolveStatus::optimal, 3)}, {60});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_TRUE(answers->front().cost == 3);
  EXPECT_EQ(answers->front().peak_bytes, 50);
}

TEST(LeastCosts, AreOfEachStrategyOrOfNone) {
  const LeastCosts right = {{3, 8, kForbidden}};
  EXPECT_EQ(Bounding(right).least_costs(one_node(), {}).value(), right);
  EXPECT_TRUE(Bounding({}).least_costs(one_node(), {}).value().empty());
  EXPECT_TRUE(Scripted({}).least_costs(one_node(), {}).value().empty());
  for (const LeastCosts& wrong : {LeastCosts{{3, 8}}, LeastCosts{{3, 8, 9}, {1}}, LeastCosts{{3, -1, 9}}}) {
    const Result<LeastCosts> refused = Bounding(wrong).least_costs(one_node(), {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::plugin_failed);
  }
}

TEST(Solve, RefusesAnswersThatBreakTheContract) {
  struct Case {
    std::vector<Assignment> answers;
    std::vector<std::int64_t> budgets;
    std::string part;
  };
  Assignment too_long = chosen(0, SolveStatus::heuristic, 0);
  too_long.choice.push_back(0);
  Assignment silent = impossible(30);
  silent.binding.clear();
  Assignment torn = impossible(30);
  torn.choice = {0};
  Assignment empty = chosen(0, SolveStatus::optimal, 0);
  empty.choice.clear();
  const std::vector<Case> cases = {
      {{}, {60}, "0 answers to 1 budgets"},
      {{too_long}, {60}, "2 nodes of 1"},
      {{chosen(7, SolveStatus::heuristic, 0)}, {60}, "a strategy that node 'a' does not have"},
      {{chosen(2, SolveStatus::heuristic, 0)}, {60}, "not allowed"},
      {{chosen(0, SolveStatus::optimal, 3)}, {40}, "needs 50 bytes at time 0, over the budget of 40"},
      {{chosen(0, SolveStatus::bounded, 4)}, {60}, "lower bound is above"},
      {{chosen(0, SolveStatus::optimal, 2)}, {60}, "lower bound is below"},
      {{chosen(0, SolveStatus::bounded, -1)}, {60}, "negative"},
      {{impossible(30)}, {60}, "within the budget"},
      {{silent}, {10}, "without saying what binds"},
      {{torn}, {10}, "gives a choice"},
      {{empty}, {60}, "gives no choice"},
      {{chosen(0, SolveStatus::optimal, 3), chosen(1, SolveStatus::optimal, 8)}, {60, 70}, "contradicts"},
      {{chosen(0, SolveStatus::optimal, 3), impossible(90)}, {60, 70}, "contradicts"},
  };
  for (const Case& test : cases) {
    const auto answers = solve(test.answers, test.budgets);
    ASSERT_FALSE(answers.ok()) << test.part;
    EXPECT_EQ(answers.error().code, ErrorCode::plugin_failed);
    EXPECT_NE(answers.error().message.find(test.part), std::string::npos) << answers.error().message;
  }
}

TEST(Solve, RefusesBadSpacesAndBudgets) {
  EXPECT_EQ(solve({}, {}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(solve({}, {-1}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(solve({}, {2, 1}).error().code, ErrorCode::bad_input);
  StrategySpace space = one_node();
  space.nodes[0].costs.clear();
  const std::vector<std::int64_t> budgets = {kNoBudget};
  EXPECT_EQ(Scripted([] { return std::vector<Assignment>(); }).solve(space, budgets, {}).error().code,
            ErrorCode::bad_input);
}

TEST(Solve, NoExceptionLeavesASolver) {
  const std::vector<std::int64_t> budgets = {kNoBudget};
  const Scripted throwing([]() -> std::vector<Assignment> { throw std::runtime_error("out of luck"); });
  EXPECT_NE(throwing.solve(one_node(), budgets, {}).error().message.find("out of luck"), std::string::npos);
}

TEST(Solve, AnswersAnEmptySpaceItself) {
  StrategySpace space;
  space.fixed_bytes = 10;
  const std::vector<std::int64_t> budgets = {5, 20};
  const auto answers = Scripted([] { return std::vector<Assignment>(); }).solve(space, budgets, {});
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ((*answers)[0].status, SolveStatus::infeasible);
  EXPECT_EQ((*answers)[1].status, SolveStatus::optimal);
}

// --- with the model ---

class NoConversions final : public ConversionSearch {
  Result<ConversionPath> do_find(const ConversionProblem&, const Layout&, const Layout&) const override { return ConversionPath(); }
};

class NoOps final : public OpTable {
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return nullptr; }
};

// The space of one_node, as if it were of a model with one variable.
struct OneVariable {
  ModelAnalysis model;
  NoOps ops;
  Mesh mesh;
  CostProfile profile;
  NoConversions conversions;
  TrainingSettings training;
  ProblemInput input{{model, training, ops, profile, conversions}, mesh, {}};
  Problem problem;

  OneVariable() {
    problem.space = one_node();
    const auto set = std::make_shared<StrategySet>();
    set->strategies.resize(problem.space.nodes[0].costs.size());
    problem.variables = {{VariableKind::parameter, kNoId, 0, "a", set}};
  }
};

// Needs the model, and answers with the strategy of that number.
class Reader final : public IntraSolver {
 public:
  explicit Reader(std::uint32_t strategy) : strategy_(strategy) {}
  [[nodiscard]] bool reads_model() const override { return true; }

 private:
  Result<std::vector<Assignment>> do_solve(const StrategySpace&, std::span<const std::int64_t>, const SearchLimits&) const override {
    return bad_input("numbers alone");
  }
  Result<std::vector<Assignment>> do_solve_model(const ModelProblem& model, std::span<const std::int64_t>, const SearchLimits&) const override {
    EXPECT_EQ(model.problem.variables[0].name, "a");
    return std::vector<Assignment>{chosen(strategy_, SolveStatus::heuristic, 0)};
  }
  std::uint32_t strategy_;
};

TEST(SolveModel, ChecksAnswersAsSolveDoes) {
  const OneVariable model;
  const std::vector<std::int64_t> budgets = {60};
  const auto answers = Reader(1).solve_model({model.input, model.problem}, budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_TRUE(answers->front().cost == 8);
  EXPECT_EQ(answers->front().peak_bytes, 20);
  EXPECT_EQ(Reader(2).solve_model({model.input, model.problem}, budgets, {}).error().code, ErrorCode::plugin_failed);  // forbidden
  EXPECT_EQ(Reader(3).solve_model({model.input, model.problem}, budgets, {}).error().code, ErrorCode::plugin_failed);  // there is none
  EXPECT_EQ(Reader(1).solve_model({model.input, model.problem}, {}, {}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(Reader(1).solve(model.problem.space, budgets, {}).error().message, "numbers alone");
}

TEST(SolveModel, RefusesASpaceThatIsNotTheModels) {
  OneVariable model;
  model.problem.space.nodes[0].costs.pop_back();
  model.problem.space.memory.clear();
  const std::vector<std::int64_t> budgets = {60};
  EXPECT_EQ(Reader(1).solve_model({model.input, model.problem}, budgets, {}).error().code, ErrorCode::bad_input);
  model.problem.space.nodes.clear();
  EXPECT_EQ(Reader(1).solve_model({model.input, model.problem}, budgets, {}).error().code, ErrorCode::bad_input);
}

TEST(SolveModel, IsSolveWhereNothingIsReadFromTheModel) {
  const OneVariable model;
  const std::vector<std::int64_t> budgets = {60};
  const Scripted numbers([] { return std::vector<Assignment>{chosen(0, SolveStatus::optimal, 3)}; });
  EXPECT_FALSE(numbers.reads_model());
  const auto answers = numbers.solve_model({model.input, model.problem}, budgets, {});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_TRUE(answers->front().cost == 3);
}

TEST(BindingText, SpeaksInGibibytesWhereThatIsClear) {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  EXPECT_EQ(binding_text(93 * gib + gib / 10, 512, 80 * gib),
            "needs at least 93.1 GiB per device at time 512; the budget is 80.0 GiB");
  EXPECT_EQ(binding_text(80 * gib + 1, 3, 80 * gib),
            "needs at least 85899345921 bytes per device at time 3; the budget is 85899345920 bytes");
}

}  // namespace
}  // namespace meshwright
