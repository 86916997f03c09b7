// What a plan leaves open when its choices are made: in which buckets gradients travel, and what may be kept for those that do.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "drawn_plan.h"
#include "fitted_search.h"
#include "meshwright/timeline.h"
#include "microbatches.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

class Fit : public testing::Test {
 protected:
  void SetUp() override {
    model_ = analyze_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
    profile_.bucket_bytes = 1 << 16;
    mesh_ = plain_mesh({2, 2});
    for (MeshAxis& axis : mesh_.axes) axis.alpha_seconds = 1e-7, axis.beta_seconds_per_byte = 1e-8;  // slow, so that it matters when gradients leave
    input_.emplace(ProblemInput{{*model_, training_, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh_, {}});
    problem_ = build_problem(*input_).value();
  }

  Assignment drawn(std::uint64_t seed) const {
    Assignment assignment;
    assignment.choice = draw_choice(problem_, seed).value();
    return assignment;
  }

  static Program program_of(const Plan& plan) { return host::make_program(plan, bench().tools).value(); }

  double step_of(const Plan& plan) const { return make_timeline(program_of(plan), *bench().tools.ops, profile_)->step_seconds; }

  std::optional<ModelAnalysis> model_;
  TrainingSettings training_;
  CostProfile profile_ = plain_profile();
  Mesh mesh_;
  std::optional<ProblemInput> input_;
  Problem problem_;
  FittedSolver fresh_solver() {
    return {[](const ModelProblem&, std::int64_t, Effort) { return Result<Assignment>(bad_input("nothing is searched")); },
            [this](const Plan& plan) {
              ++lowered_;
              return host::make_program(plan, bench().tools);
            }};
  }

  int lowered_ = 0;
  const FittedSolver solver_ = fresh_solver();
};

constexpr int kDraws = 12;

TEST_F(Fit, StatesTheStepOfItsBuckets) {
  int smaller = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    const Plan plan = solver_.fit(*input_, problem_, drawn(seed), 0)->plan;
    EXPECT_EQ(plan.step_seconds, step_of(plan));
    Plan whole = plan;
    whole.bucket_bytes = profile_.bucket_bytes;
    EXPECT_LE(plan.step_seconds, step_of(whole));
    smaller += plan.bucket_bytes < profile_.bucket_bytes && plan.step_seconds < step_of(whole) ? 1 : 0;
  }
  EXPECT_GT(smaller, 0);
}

TEST_F(Fit, DrawsWhatIsBeforeReductionsOnceForAllBuckets) {
  training_.microbatches = 4;
  const OpTable& ops = *bench().tools.ops;
  model_ = analyze_model(cut_into_microbatches(read_model("gpt2_tiny"), ops, training_.microbatches, true).value(), ops).value();
  problem_ = build_problem(*input_).value();
  std::set<double> steps;
  for (int seed = 0; seed < kDraws; ++seed) {
    Program program = program_of(draw_plan(*input_, problem_, static_cast<std::uint64_t>(seed)).value());
    const std::vector<Work> works = works_of(program, ops);
    const BucketTimelines timelines = BucketTimelines::make(program, works, profile_).value();
    for (const std::int64_t bytes : {std::int64_t{1} << 12, profile_.bucket_bytes, std::int64_t{1}, std::int64_t{1} << 14}) {
      program.bucket_bytes = bytes;
      const Timeline drawn = timelines.draw().value(), whole = make_timeline(program, works, profile_).value();
      EXPECT_EQ(drawn.step_seconds, whole.step_seconds) << seed << ", " << bytes;
      EXPECT_EQ(drawn.communication_seconds, whole.communication_seconds);
      EXPECT_EQ(drawn.waits_before_updates, whole.waits_before_updates);
      EXPECT_EQ(drawn.waits_at_end, whole.waits_at_end);
      EXPECT_EQ(drawn.host_seconds, whole.host_seconds);
      EXPECT_EQ(drawn.waits_for_host, whole.waits_for_host);
      EXPECT_EQ(drawn.forward_seconds, whole.forward_seconds);
      steps.insert(drawn.step_seconds);
    }
  }
  EXPECT_GT(steps.size(), std::size_t{kDraws});  // buckets matter
}

TEST_F(Fit, KeepsWhatTravelsOnlyWithinTheBudgetAndIfThatIsFaster) {
  int faster = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    const Plan least = solver_.fit(*input_, problem_, drawn(seed), 0)->plan;
    EXPECT_EQ(least.room_bytes, 0);
    for (const std::int64_t budget : {least.peak_bytes, least.peak_bytes * 11 / 10, kNoBudget}) {
      const Plan plan = solver_.fit(*input_, problem_, drawn(seed), budget)->plan;
      EXPECT_LE(plan.peak_bytes, budget);
      EXPECT_GE(plan.peak_bytes, least.peak_bytes);
      EXPECT_LE(plan.step_seconds, least.step_seconds);
      EXPECT_EQ(plan.step_seconds, step_of(plan));
      if (plan.room_bytes == 0) continue;
      EXPECT_LT(plan.step_seconds, least.step_seconds);
      ++faster;
    }
  }
  EXPECT_GT(faster, 0);
}

TEST_F(Fit, OfShorterStepsIsTheSamePlanOrNone) {
  for (int seed = 0; seed < kDraws; ++seed) {
    const std::int64_t least_bytes = solver_.fit(*input_, problem_, drawn(seed), 0)->plan.peak_bytes;
    for (const std::int64_t budget : {least_bytes - 1, least_bytes * 11 / 10, kNoBudget}) {
      const Plan plan = fresh_solver().fit(*input_, problem_, drawn(seed), budget)->plan;
      const FittedSolver solver = fresh_solver();
      EXPECT_FALSE(solver.fit_shorter(*input_, problem_, drawn(seed), budget, plan.step_seconds)->has_value());
      for (const double than : {plan.step_seconds * 1.001, std::numeric_limits<double>::infinity()}) {
        const std::optional<FittedPlan> shorter = solver.fit_shorter(*input_, problem_, drawn(seed), budget, than).value();
        ASSERT_EQ(shorter.has_value(), plan.peak_bytes <= budget);
        if (!shorter) continue;
        EXPECT_EQ(shorter->plan.step_seconds, plan.step_seconds);
        EXPECT_EQ(shorter->plan.bucket_bytes, plan.bucket_bytes);
        EXPECT_EQ(shorter->plan.room_bytes, plan.room_bytes);
        EXPECT_EQ(shorter->plan.peak_bytes, plan.peak_bytes);
      }
    }
  }
}

TEST_F(Fit, IsNotSimulatedAgainToBeRefusedAgain) {
  const double step = solver_.fit(*input_, problem_, drawn(0), kNoBudget)->plan.step_seconds;
  lowered_ = 0;
  const Problem copy = problem_;
  EXPECT_FALSE(solver_.fit_shorter(*input_, copy, drawn(0), kNoBudget, step)->has_value());
  EXPECT_EQ(lowered_, 0);
  const Problem other = build_problem(*input_).value();  // of which nothing is known
  EXPECT_FALSE(solver_.fit_shorter(*input_, other, drawn(0), kNoBudget, step)->has_value());
  EXPECT_EQ(lowered_, 1);
  EXPECT_TRUE(solver_.fit_shorter(*input_, problem_, drawn(0), kNoBudget, 2 * step)->has_value());
  EXPECT_EQ(lowered_, 2);
}

}  // namespace
}  // namespace meshwright::test
