// [search] checkpoint: MAP's two stages with each solver of chains. Plans fit, compute what one device does, and are no better than what is proven.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder_test.h"
#include "meshwright/recompute.h"
#include "planned_program.h"

namespace meshwright {
namespace {

using host::PlanOptions;
using host::PlanOutcome;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Result<PlanOutcome> plan_by(const std::string& checkpoint, std::int64_t budget, std::vector<std::string> set = {}, const std::string& model = "gpt2_deep_tiny") {
  PlanOptions options;
  options.model = test::tiny(model);
  options.cluster = test::cluster_of("2x2");
  options.mesh = "2x2";
  options.set = std::move(set);
  for (const std::string& each : {"search.checkpoint=" + checkpoint, std::string("search.sure=false")}) options.set.push_back(each);
  if (budget > 0) options.memory_budget = std::to_string(budget);
  return test::plan(options);
}

// Of what the plan of the least objective holds.
std::int64_t part_of_the_fastest(double share, const std::string& model = "gpt2_deep_tiny") {
  const Result<PlanOutcome> fastest = plan_by("none", 0, {"search.step_rounds=0"}, model);
  EXPECT_TRUE(fastest && fastest->plan);
  return static_cast<std::int64_t>(share * static_cast<double>(fastest->plan->peak_bytes));
}

bool is_built(const std::string& checkpoint) {
  const host::PluginHost host = test::open_host();
  return std::ranges::count(host.registry().ids("checkpoint"), checkpoint) > 0;
}

class CheckpointSweep : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << GetParam() << " was not built";
  }
};

TEST_P(CheckpointSweep, FitsWhereABudgetBinds) {
  const std::vector<std::string> by_objective = {"search.step_rounds=0"};
  const Result<PlanOutcome> roomy = plan_by("none", 0, by_objective);
  ASSERT_TRUE(roomy && roomy->plan);
  int chosen = 0;
  for (const double share : {0.7, 0.6}) {
    SCOPED_TRACE(share);
    const std::int64_t budget = part_of_the_fastest(share);
    const Result<PlanOutcome> without = plan_by("none", budget, by_objective);
    Result<PlanOutcome> with = plan_by(GetParam(), budget, by_objective);
    ASSERT_TRUE(without && with) << with.error().message;
    ASSERT_TRUE(with->plan) << with->refusal;
    const Plan& plan = *with->plan;
    EXPECT_LE(plan.peak_bytes, budget);
    EXPECT_GT(plan.lower_bound_seconds, 0);
    EXPECT_LE(plan.lower_bound_seconds, plan.objective_seconds);
    // The bound is of any schedule, also of none.
    EXPECT_LE(plan.lower_bound_seconds, roomy->plan->objective_seconds);
    if (without->plan) {
      EXPECT_LE(plan.step_seconds, without->plan->step_seconds);
    }
    if (plan.recomputed.empty()) continue;
    ++chosen;
    EXPECT_THAT(plan.notes, Contains(testing::AllOf(HasSubstr("runs again for the backward"), HasSubstr(std::string("By ") + GetParam() + ", budget times "), HasSubstr(" stages run again"))));
    EXPECT_TRUE(std::ranges::any_of(plan.plugins, [](const UsedPlugin& used) { return used.kind == "checkpoint" && used.id == GetParam(); }));
    Result<test::PlannedProgram> program = test::program_of(std::move(*with->plan));
    ASSERT_TRUE(program) << program.error().message;
    test::expect_verifies(*program, 3);
  }
  EXPECT_GE(chosen, 1);
}

// A VGG has blocks of single ops, whose values are kept. What can be let go are the places of its maxima and the masks of its dropouts.
TEST_P(CheckpointSweep, LetsGoWhatAnOpMakesBesideTheValueThatIsKept) {
  const std::int64_t budget = part_of_the_fastest(0.94, "vgg_tiny");
  const std::vector<std::string> by_objective = {"search.step_rounds=0"};
  const Result<PlanOutcome> without = plan_by("none", budget, by_objective, "vgg_tiny"), with = plan_by(GetParam(), budget, by_objective, "vgg_tiny");
  ASSERT_TRUE(without && without->plan && with && with->plan);
  EXPECT_FALSE(with->plan->recomputed.empty());
  EXPECT_LT(with->plan->step_seconds, 0.95 * without->plan->step_seconds);
  EXPECT_LE(with->plan->peak_bytes, budget);
}

TEST_P(CheckpointSweep, ChangesNothingWhereNoneBinds) {
  const Result<PlanOutcome> without = plan_by("none", 0), with = plan_by(GetParam(), 0);
  ASSERT_TRUE(without && without->plan && with && with->plan);
  EXPECT_THAT(with->plan->recomputed, IsEmpty());
  EXPECT_EQ(with->plan->step_seconds, without->plan->step_seconds);
  EXPECT_EQ(with->plan->objective_seconds, without->plan->objective_seconds);
  EXPECT_EQ(with->plan->peak_bytes, without->plan->peak_bytes);
  EXPECT_EQ(with->plan->notes, without->plan->notes);
  ASSERT_EQ(with->plan->variables.size(), without->plan->variables.size());
  for (std::size_t i = 0; i < with->plan->variables.size(); ++i) EXPECT_TRUE(same_choice(with->plan->variables[i], without->plan->variables[i]));
}

// Nothing that is too small for any plan has one.
TEST_P(CheckpointSweep, RefusesWhatNothingFitsInto) {
  const Result<PlanOutcome> refused = plan_by(GetParam(), 4096);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_FALSE(refused->plan);
  EXPECT_THAT(refused->refusal, HasSubstr("no plan fits"));
}

INSTANTIATE_TEST_SUITE_P(, CheckpointSweep, testing::Values("chen", "checkmate", "dtr", "rotor"), [](const auto& info) { return std::string(info.param); });

TEST(CheckpointSettings, RefusesWhatIsUnknownOrContradicts) {
  const Result<PlanOutcome> unknown = plan_by("rotr", 0);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, testing::AllOf(HasSubstr("rotr"), HasSubstr("rotor")));
  const Result<PlanOutcome> in_flight = plan_by("rotor", 0, {"train.microbatches=2", "train.order=F0 F1 B0 B1"}, "gpt2_tiny");
  ASSERT_FALSE(in_flight);
  EXPECT_THAT(in_flight.error().message, testing::AllOf(HasSubstr("\"checkpoint\""), HasSubstr("\"order\"")));
}

TEST(CheckpointSettings, GiveAStepNoLessThanItsBound) {
  const Result<PlanOutcome> roomy = plan_by("none", 0, {"search.step_rounds=1"}), with = plan_by("rotor", part_of_the_fastest(0.6), {"search.step_rounds=1"});
  ASSERT_TRUE(roomy && roomy->plan && with && with->plan);
  EXPECT_FALSE(with->plan->recomputed.empty());
  EXPECT_GT(with->plan->step_lower_bound_seconds, 0);
  EXPECT_LE(with->plan->step_lower_bound_seconds, with->plan->step_seconds);
  EXPECT_LE(with->plan->step_lower_bound_seconds, roomy->plan->step_seconds);
}

// What solvers of chains choose by is what is run. Were what plans keep anyway, or never run again, part of it, those that are exact would be behind those that are not.
TEST(CheckpointSolvers, ThatAreExactAreNotBehindRulesOfThumb) {
  const std::int64_t budget = part_of_the_fastest(0.6);
  const auto step_of = [&](const char* checkpoint) {
    const Result<PlanOutcome> made = plan_by(checkpoint, budget, {"search.step_rounds=0"});
    EXPECT_TRUE(made && made->plan) << checkpoint;
    return made && made->plan ? made->plan->step_seconds : 0;
  };
  const double thumb = std::min(step_of("chen"), step_of("dtr"));
  for (const char* exact : {"rotor", "checkmate"}) {
    if (!is_built(exact)) continue;
    EXPECT_LE(step_of(exact), 1.005 * thumb) << exact;
  }
}

class CheckpointPins : public test::FolderTest {};

// What pins say holds in whatever a solver chooses.
TEST_F(CheckpointPins, AreFollowed) {
  const Result<PlanOutcome> roomy = plan_by("none", 0);
  ASSERT_TRUE(roomy && roomy->plan);
  const std::vector<RecomputableBlock> blocks = blocks_of(roomy->plan->model);
  write("pins.toml", "[pins]\n\"" + blocks[0].name + "\" = \"keep\"\n\"" + blocks[1].name + "\" = \"recompute\"\n");
  PlanOptions options;
  options.model = test::tiny("gpt2_deep_tiny");
  options.cluster = test::cluster_of("2x2");
  options.mesh = "2x2";
  options.config = path("pins.toml");
  options.set = {"search.checkpoint=rotor", "search.sure=false", "search.step_rounds=0"};
  int more = 0;  // plans in which more runs again than the pins ask for
  for (const double share : {0.65, 0.62}) {
    SCOPED_TRACE(share);
    const std::int64_t budget = part_of_the_fastest(share);
    options.memory_budget = std::to_string(budget);
    const Result<PlanOutcome> pinned = test::plan(options);
    ASSERT_TRUE(pinned) << pinned.error().message;
    if (!pinned->plan) continue;
    EXPECT_LE(pinned->plan->peak_bytes, budget);
    more += pinned->plan->recomputed.size() > 1 ? 1 : 0;
    const Recomputation made = recomputation(pinned->plan->model, pinned->plan->recomputed).value(), alone = recomputation(pinned->plan->model, {blocks[1].name}).value();
    for (const NodeId id : blocks[0].nodes) EXPECT_FALSE(made.runs(id));
    for (const NodeId id : blocks[1].nodes) EXPECT_EQ(made.runs(id), alone.runs(id));
  }
  EXPECT_GE(more, 1);
}

}  // namespace
}  // namespace meshwright
