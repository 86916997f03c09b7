#include "titan_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright::titan {
namespace {

using Layers = std::vector<std::int64_t>;

// As torchtitan documents it: of 3 layers in 2 stages, whose embedding and head count as 2 each, the first stage has 2 and the last 1.
TEST(Split, IsTorchtitans) {
  EXPECT_EQ(layers_of_split(3, 2, {4, 2, 2}), (Layers{2, 1}));
  EXPECT_EQ(layers_of_split(8, 4, {2, 0, 0}), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers_of_split(6, 4, {2, 1, 1}), (Layers{1, 2, 2, 1}));
  EXPECT_EQ(layers_of_split(8, 4, {3, 0, 0}), std::nullopt);  // 3 stages on 4 groups
  EXPECT_EQ(layers_of_split(4, 4, {2, 3, 1}), std::nullopt);  // more to take from the first stage than it has
}

TEST(Split, IsFoundWhereThereIsOne) {
  for (const Layers& layers : {Layers{2, 2, 2, 2}, Layers{1, 2, 2, 1}, Layers{3, 2}, Layers{0, 1, 1, 0}, Layers{2, 2, 1}, Layers{1, 1, 1, 1, 1, 1, 1, 1}}) {
    const std::optional<LayerSplit> split = split_of_layers(layers, 1);
    ASSERT_TRUE(split) << testing::PrintToString(layers);
    std::int64_t all = 0;
    for (const std::int64_t number : layers) all += number;
    EXPECT_EQ(layers_of_split(all, 1, *split), layers);
  }
  EXPECT_EQ(split_of_layers({2, 1, 3}, 3), std::nullopt);
  EXPECT_EQ(split_of_layers({1, 1, 3, 1}, 2), std::nullopt);
}

TEST(Schedules, HavePyTorchsNames) {
  EXPECT_EQ(schedule_name("zb_v"), "ZBVZeroBubble");
  EXPECT_EQ(schedule_name("one_f_one_b"), "1F1B");
  EXPECT_EQ(schedule_name("zb_h1"), "");
  EXPECT_EQ(schedule_name("from_csv"), "");
}

framework::PlanReading reading_of(ZeroStage zero, std::int64_t data, std::int64_t tensor) {
  framework::PlanReading plan;
  plan.use.data = data;
  plan.use.tensor = tensor;
  plan.zero.stage = zero;
  plan.batch = 8;
  framework::Layer& layer = plan.layers.layers.emplace_back();
  layer.name = "h.0";
  layer.parts[0].ops = {"attention"};
  plan.layers.lists = {"h"};
  return plan;
}

TEST(Sharding, IsFsdpButForDataParallelismAlone) {
  const TitanPlan alone = nearest_plan(reading_of(ZeroStage::none, 4, 1)).value();
  EXPECT_EQ(std::pair(alone.replicas, alone.shards), std::pair(std::int64_t{4}, std::int64_t{1}));
  EXPECT_EQ(alone.plan.zero, ZeroStage::none);
  const TitanPlan beside = nearest_plan(reading_of(ZeroStage::none, 4, 2)).value();
  EXPECT_EQ(std::pair(beside.replicas, beside.shards), std::pair(std::int64_t{1}, std::int64_t{4}));
  EXPECT_EQ(beside.plan.zero, ZeroStage::value);
  EXPECT_FALSE(beside.reshards);
  framework::PlanReading sharded = reading_of(ZeroStage::value, 4, 2);
  sharded.zero.regather = true;
  sharded.zero.copies = 2;
  sharded.use.sequence_parallel = true;
  const TitanPlan hybrid = nearest_plan(sharded).value();
  EXPECT_EQ(std::pair(hybrid.replicas, hybrid.shards), std::pair(std::int64_t{2}, std::int64_t{2}));
  EXPECT_TRUE(hybrid.reshards);
  EXPECT_TRUE(hybrid.plan.notes.empty()) << testing::PrintToString(hybrid.plan.notes);
}

TEST(Modules, AreListedWhereNoSplitIsOurs) {
  framework::PlanReading plan = reading_of(ZeroStage::none, 1, 1);
  TitanPlan made;
  made.plan.pp = 3;
  made.plan.schedule = "one_f_one_b";
  made.plan.layers = {2, 0, 1};
  const auto last = parallelism_fields(plan, made).back();
  EXPECT_EQ(last.first, "module_fqns_per_model_part");
  EXPECT_EQ(last.second, R"([["tok_embeddings", "layers.0", "layers.1"], [], ["layers.2", "norm", HEAD]])");
}

TEST(Experts, LieOverDevicesWhereEachWouldBeCut) {
  framework::PlanReading plan = reading_of(ZeroStage::none, 4, 1);
  plan.experts = 8;
  plan.use.expert_tensor = plan.use.experts_apart = 4;
  const TitanPlan made = nearest_plan(plan).value();
  EXPECT_EQ(made.plan.ep, 4);
  EXPECT_THAT(made.plan.notes, testing::Contains(testing::HasSubstr("here experts lie over 4 devices")));
}

}  // namespace
}  // namespace meshwright::titan
