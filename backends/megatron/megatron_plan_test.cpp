#include "megatron_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright::megatron {
namespace {

using framework::FrameworkPlan;
using framework::PlanReading;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

// Four groups of devices with two parts of a layer each.
PlanReading interleaved(std::int64_t microbatches) {
  PlanReading plan;
  plan.groups = 4;
  plan.chunks = 2;
  plan.schedule = "interleaved";
  plan.training.microbatches = microbatches;
  plan.batch = microbatches;
  for (std::uint32_t i = 0; i < 8; ++i) {
    framework::Layer& layer = plan.layers.layers.emplace_back();
    layer.name = "h." + std::to_string(i);
    layer.stage = i;
    layer.parts[0].ops = {"attention_" + std::to_string(i)};
    layer.parts[2].ops = {"mlp_" + std::to_string(i)};
  }
  plan.layers.lists = {"h"};
  return plan;
}

std::vector<std::string> texts(const PlanReading& plan, const FrameworkPlan& made) {
  std::vector<std::string> all;
  for (const Argument& argument : arguments_of(plan, made)) all.push_back(argument.text);
  return all;
}

TEST(Megatron, InterleavesWhatPpDivides) {
  const PlanReading plan = interleaved(8);
  const FrameworkPlan made = nearest_plan(plan).value();
  EXPECT_TRUE(made.notes.empty());
  EXPECT_THAT(texts(plan, made), Contains("--num-virtual-stages-per-pipeline-rank 2"));
  const PlanReading odd = interleaved(6);
  const FrameworkPlan merged = nearest_plan(odd).value();
  EXPECT_EQ(merged.schedule, "one_f_one_b");
  EXPECT_EQ(merged.layers, (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_THAT(merged.notes, Contains(HasSubstr("Interleaving wants a number of microbatches that pp 4 divides, and there are 6")));
  EXPECT_THAT(texts(odd, merged), testing::Not(Contains(HasSubstr("virtual"))));
}

TEST(Megatron, HasWordsForTheFirstLayersOfEachPartOrForModules) {
  PlanReading plan = interleaved(8);
  for (std::size_t i = 0; i < 5; ++i) plan.layers.layers[i].all_again = true;  // of eight: half and more
  FrameworkPlan made = nearest_plan(plan).value();
  EXPECT_EQ(made.again, framework::Again::layers);
  EXPECT_THAT(texts(plan, made), Contains("--recompute-method uniform"));  // each part has one
  for (framework::Layer& layer : plan.layers.layers) {
    layer.all_again = false;
    layer.parts[2].again_seconds = 1;
    layer.parts[2].runs_again = true;
    layer.parts[4].again_seconds = 1;
  }
  made = nearest_plan(plan).value();
  EXPECT_THAT(texts(plan, made), Contains("--recompute-modules mlp"));
  EXPECT_THAT(made.notes, Contains(HasSubstr("50.0 % of the computing that the plan runs again is of ops that Megatron-LM has no word for")));
}

TEST(Megatron, WantsSequenceParallelismBesideExperts) {
  PlanReading plan = interleaved(8);
  plan.use.tensor = 2;
  plan.use.data = 2;
  plan.batch = 16;
  plan.use.experts = plan.use.experts_apart = 2;
  plan.use.expert_tensor = 2;
  plan.experts = 8;
  const FrameworkPlan made = nearest_plan(plan).value();
  EXPECT_THAT(texts(plan, made), testing::AllOf(Contains("--sequence-parallel"), Contains("--expert-model-parallel-size 2"), testing::Not(Contains(HasSubstr("expert-tensor")))));
}

TEST(Megatron, GathersValuesAgain) {
  PlanReading plan = interleaved(8);
  plan.use.data = 2;
  plan.batch = 16;
  plan.zero.stage = ZeroStage::value;
  const FrameworkPlan made = nearest_plan(plan).value();
  EXPECT_TRUE(made.regather);
  EXPECT_THAT(made.notes, Contains(HasSubstr("Megatron-LM's FSDP gathers them again")));
  EXPECT_THAT(texts(plan, made), Contains("--data-parallel-sharding-strategy optim_grads_params"));
}

TEST(Layout, HasEmbeddingAndLossAtItsEnds) {
  EXPECT_EQ(layout_text({3, 0, 2}), "Ettt||ttL");
  EXPECT_EQ(layout_text({0, 1}), "E|tL");
}

}  // namespace
}  // namespace meshwright::megatron
