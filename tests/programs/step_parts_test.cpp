// No path through a step is longer than the simulated step of its plan, whatever the plan: bounds that are proven with paths are valid.
#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "draft.h"
#include "drawn_plan.h"
#include "fitted_search.h"
#include "meshwright/reduce.h"
#include "meshwright/solver.h"
#include "meshwright/step_parts.h"
#include "meshwright/timeline.h"
#include "program_bench.h"
#include "step_search.h"

namespace meshwright::test {
namespace {

using Choice = std::vector<std::uint32_t>;

struct PartDraws {
  const char* model;
  std::vector<std::int64_t> mesh;
  std::int64_t microbatches = 1;
  const char* order = "";
  bool compile = false;
};

void PrintTo(const PartDraws& draws, std::ostream* out) {
  *out << draws.model << " on " << to_string(plain_mesh(draws.mesh)) << ", " << draws.microbatches << " microbatches " << draws.order << (draws.compile ? ", compiled" : "");
}

CostProfile profile_with_host() {
  CostProfile profile = plain_profile();
  profile.device.host_launch_seconds = 3e-6;
  profile.device.host_collective_seconds = 9e-6;
  profile.bucket_bytes = 20'000;  // so that tiny models have several
  return profile;
}

Assignment solved(const StrategySpace& space) {
  const Reduction reduction = reduce(space);
  const std::int64_t budgets[] = {kNoBudget};
  return reduction.lift(space, std::move(bench().host.create<IntraSolver>("intra", "elimination").value()->solve(reduction.space, budgets, {}).value()[0]));
}

// Another strategy for one variable, or two, or three.
Choice neighbour(const StrategySpace& space, const Choice& of, std::mt19937_64& random) {
  for (;;) {
    Choice choice = of;
    for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
      const std::size_t variable = random() % choice.size();
      choice[variable] = static_cast<std::uint32_t>(random() % space.nodes[variable].costs.size());
    }
    if (choice != of && evaluate(space, choice).allowed) return choice;
  }
}

class StepPaths : public testing::TestWithParam<PartDraws> {
 protected:
  void SetUp() override {
    const PartDraws& draws = GetParam();
    model_ = analyze_model(read_model(draws.model), *bench().tools.ops).value();
    training_.microbatches = draws.microbatches;
    training_.order = draws.order;
    training_.compile = draws.compile;
  }

  // In whole buckets and in small ones, with as little in memory as possible and with room for all that travels.
  double share_of_step(const ProblemInput& input, const Problem& problem, const StepParts& parts, const Choice& choice) {
    Plan plan = plan_of_choice(input, problem, choice).value();
    const double share = share_of_program(plan, parts, choice);
    plan.bucket_bytes /= 4;
    plan.room_bytes = kNoBudget;
    share_of_program(plan, parts, choice);
    return share;
  }

  // Row by row too, so that what one resource hides of another's mistake is seen.
  double share_of_program(const Plan& plan, const StepParts& parts, const Choice& choice) {
    const Result<Program> program = host::make_program(plan, bench().tools);
    EXPECT_TRUE(program) << program.error().message;
    if (!program) return 0;
    const Timeline times = make_timeline(*program, *bench().tools.ops, profile_).value();
    const PathTable table = parts.of(choice);
    std::array<double, kPathRows> sums = {};
    for (const auto& place : table) {
      for (std::size_t row = 0; row < kPathRows; ++row) sums[row] += place[row];
    }
    double computing = 0;
    for (const Span& span : make_timeline(*program, *bench().tools.ops, profile_, Detail::spans).value().spans) computing += span.stream == Stream::compute ? to_seconds(span.ticks) : 0;
    constexpr double kRounding = 1e-9;
    EXPECT_LE(seconds_of(sums[kComputeRow]), computing * (1 + kRounding) + kRounding);
    EXPECT_LE(seconds_of(sums[kHostRow]), times.host_seconds * (1 + kRounding) + kRounding);
    EXPECT_LE(seconds_of(sums[kSentRow]), times.communication_seconds * (1 + kRounding) + kRounding);
    const double longest = seconds_of(length(table, longest_path(parts.places(), table)));
    EXPECT_LE(longest, times.step_seconds * (1 + kRounding) + kRounding);
    return longest / times.step_seconds;
  }

  static double seconds_of(double ticks) { return ticks / static_cast<double>(kTicksPerSecond); }

  std::optional<ModelAnalysis> model_;
  TrainingSettings training_;
  const CostProfile profile_ = profile_with_host();
};

TEST_P(StepPaths, AreNoLongerThanTheSimulatedStep) {
  const Mesh mesh = plain_mesh(GetParam().mesh);
  const ProblemInput input{{*model_, training_, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh, {}};
  const Problem problem = build_problem(input).value();
  const StepParts parts(input, problem);
  const Choice best = solved(problem.space).choice;
  std::mt19937_64 random(1);
  std::vector<PathTable> tables;
  std::vector<Choice> choices = {best};
  for (int seed = 0; seed < at_most_draws(4); ++seed) choices.push_back(draw_choice(problem, static_cast<std::uint64_t>(seed)).value());
  for (int seed = 0; seed < at_most_draws(8); ++seed) choices.push_back(neighbour(problem.space, best, random));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SCOPED_TRACE(i == 0 ? "the best" : "choice " + std::to_string(i));
    const double share = share_of_step(input, problem, parts, choices[i]);
    if (i == 0) {
      EXPECT_GT(share, 0.6);  // and they say something
    }
    tables.push_back(parts.of(choices[i]));
  }
  // As a space: no dearer than the average of the paths, and not much cheaper.
  const PathTable average = best_average(parts.places(), tables);
  const StrategySpace space = parts.space(average);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Evaluation cost = evaluate(space, choices[i]);
    const double here = static_cast<double>(cost.cost) + parts.fixed_ticks(average), there = length(tables[i], average);
    EXPECT_TRUE(cost.allowed);
    EXPECT_LE(here, there * (1 + 1e-9) + 1);
    EXPECT_GT(here, 0.8 * there);
  }
}

std::vector<PartDraws> draws_of_parts() {
  std::vector<PartDraws> all;
  for (const char* model : {"mlp_tiny", "gpt2_tiny", "bert_tiny", "vit_tiny", "llama_tiny", "resnet_tiny", "t5_tiny", "vgg_tiny", "clip_tiny", "mixtral_tiny"}) {
    all.push_back({model, {2, 2}});
    all.push_back({model, {4}, 3});
  }
  for (const char* model : {"gpt2_tiny", "resnet_tiny"}) {
    all.push_back({model, {2, 2, 2}});
    all.push_back({model, {4}, 3, "F0 F1 B0 F2 B1 B2"});
    all.push_back({model, {2, 2}, 1, "", true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, StepPaths, testing::ValuesIn(draws_of_parts()), [](const auto& info) {
  std::string name = std::string(info.param.model) + "_" + to_string(plain_mesh(info.param.mesh)) + "_" + std::to_string(info.param.microbatches) +
                     (*info.param.order == 0 ? "" : "_in_another_order") + (info.param.compile ? "_compiled" : "");
  std::replace(name.begin(), name.end(), 'x', '_');
  return name;
});

// Every choice of a small space, simulated.
TEST(StepBound, IsNoMoreThanTheBestOfAllStepsAndClosesTheGap) {
  Draft draft;
  const ValueId x = draft.input("x", DType::float32, {64, 64});
  const ValueId h = draft.op("aten.linear", {{"input", x}, {"weight", draft.parameter("0.weight", {256, 64})}}, {}, {64, 256});
  const ValueId y = draft.op("aten.linear", {{"input", h}, {"weight", draft.parameter("1.weight", {64, 256})}}, {}, {64, 64});
  const ModelAnalysis model = analyze_model(draft.finish("small", draft.op("aten.mean", {{"self", y}}, {}, {})), *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({2});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  Problem problem = build_problem(input).value();
  const FittedSolver solver([](const ModelProblem& given, std::int64_t, Effort) { return Result<Assignment>(solved(given.problem.space)); },
                            [](const Plan& plan) { return host::make_program(plan, bench().tools); });
  double shortest = std::numeric_limits<double>::infinity();
  Choice choice(problem.variables.size(), 0);
  int simulated = 0;
  for (std::size_t at = 0; at < choice.size();) {
    if (evaluate(problem.space, choice).allowed) {
      Assignment assignment;
      assignment.choice = choice;
      shortest = std::min(shortest, solver.fit(input, problem, assignment, kNoBudget)->plan.step_seconds);
      ++simulated;
    }
    for (at = 0; at < choice.size() && ++choice[at] == problem.space.nodes[at].costs.size(); ++at) choice[at] = 0;
  }
  EXPECT_GT(simulated, 100);
  FittedPlan first = solver.fit(input, problem, solved(problem.space), kNoBudget).value();
  StepSearch search(solver, input, problem, kNoBudget, std::move(first), [](const FittedPlan&) { return Result<bool>(true); });
  while (!search.is_done()) ASSERT_TRUE(search.run_round());
  EXPECT_LE(search.bound_seconds(), shortest);
  EXPECT_GE(search.bound_seconds(), 0.9 * shortest);
  EXPECT_NEAR(search.best().plan.step_seconds, shortest, 1e-3 * shortest);
}

}  // namespace
}  // namespace meshwright::test
