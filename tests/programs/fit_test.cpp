// What a plan leaves open when its choices are made: in which buckets gradients travel, and what may be kept for those that do.
#include <gtest/gtest.h>

#include "drawn_plan.h"
#include "fitted_search.h"
#include "meshwright/timeline.h"
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
  const FittedSolver solver_{[](const ModelProblem&, std::int64_t, std::int64_t) { return Result<Assignment>(bad_input("nothing is searched")); },
                             [](const Plan& plan) { return host::make_program(plan, bench().tools); }};
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

}  // namespace
}  // namespace meshwright::test
