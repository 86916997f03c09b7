#include "framework_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshwright::framework {
namespace {

// Of so many layers in each part of the model.
PlanReading reading_of(std::int64_t groups, std::int64_t chunks, const std::vector<std::int64_t>& layers) {
  PlanReading plan;
  plan.groups = groups;
  plan.chunks = chunks;
  plan.schedule = groups > 1 ? "one_f_one_b" : "";
  plan.batch = 32;
  plan.training.microbatches = 4;
  for (std::uint32_t part = 0; part < layers.size(); ++part) {
    for (std::int64_t i = 0; i < layers[part]; ++i) {
      Layer& layer = plan.layers.layers.emplace_back();
      layer.name = "h." + std::to_string(plan.layers.layers.size() - 1);
      layer.stage = part;
      layer.parts[0].ops = {"attention_" + layer.name};
      layer.parts[1].ops = {"norm_" + layer.name};
      layer.products = {"attention_" + layer.name};
    }
  }
  plan.layers.lists = {"h"};
  return plan;
}

bool has_setting(const AskedPlan& asked, const std::string& setting) { return std::ranges::find(asked.settings, setting) != asked.settings.end(); }

TEST(NearestDegrees, AreThoseOfThePlanWhereTheyCanBe) {
  PlanReading plan = reading_of(2, 1, {2, 2});
  plan.use.data = 4;
  plan.use.tensor = 2;
  plan.zero = {ZeroStage::optimizer, 1, false, 1};
  const FrameworkPlan made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(made.dp, 4);
  EXPECT_EQ(made.tp, 2);
  EXPECT_EQ(made.pp, 2);
  EXPECT_EQ(made.micro_batch, 2);
  EXPECT_EQ(made.zero_degree, 4);
  EXPECT_TRUE(made.is_even());
  EXPECT_TRUE(made.notes.empty());
  const AskedPlan asked = asked_plan(plan, made);
  for (const char* setting : {"cluster.mesh=\"4x2\"", "search.batch_axes=\"0\"", "search.weights=\"1\"", "search.context_axes=\"none\"", "search.zero=\"1\"", "search.zero_axes=\"0\"", "search.stages=2",
                              "search.schedule=\"one_f_one_b\"", "search.chunks=0", "search.recompute=\"none\""}) {
    EXPECT_TRUE(has_setting(asked, setting)) << setting;
  }
  EXPECT_EQ(asked.pins, (std::vector<std::pair<std::string, std::string>>{{"h.0", "stage 0"}, {"h.1", "stage 0"}, {"h.2", "stage 1"}, {"h.3", "stage 1"}}));
}

TEST(NearestDegrees, DivideBatchHeadsAndSequence) {
  PlanReading plan = reading_of(1, 1, {2});
  plan.use.data = 16;  // of 8 samples
  plan.heads = 4;
  FrameworkPlan made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(std::pair(made.dp, made.tp), std::pair(std::int64_t{8}, std::int64_t{2}));
  EXPECT_EQ(made.notes.size(), 1U);

  plan.use.data = 2;
  plan.use.tensor = 8;  // of 4 heads
  made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(std::pair(made.dp, made.tp), std::pair(std::int64_t{4}, std::int64_t{4}));

  plan.use.data = 8;  // of 8 samples: nothing is left of the batch
  plan.sequence = 16;
  made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(std::pair(made.cp, made.tp), std::pair(std::int64_t{2}, std::int64_t{4}));
  plan.sequence = 6;
  const Result<FrameworkPlan> none = nearest_degrees(plan, "F");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("4 heads of attention"), std::string::npos) << none.error().message;

  plan.use.tensor = 1;
  plan.use.context = 4;  // 6 positions are not 8 parts
  made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(std::pair(made.cp, made.tp), std::pair(std::int64_t{1}, std::int64_t{4}));
}

TEST(NearestDegrees, SayWhatIsLeft) {
  PlanReading plan = reading_of(1, 1, {2});
  plan.use.idle = 2;
  plan.use.weight_seconds = 1;
  plan.use.mixed_seconds = 0.25;
  plan.zero = {ZeroStage::value, 1, true, 0.5};
  const FrameworkPlan made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(made.dp, 2);
  EXPECT_TRUE(made.regather);
  ASSERT_EQ(made.notes.size(), 3U);
  EXPECT_NE(notes_text(made, "F").find("# - The plan splits 25.0 % of"), std::string::npos);
}

TEST(AskedPlan, SplitsAxesForHybridShardingAndExperts) {
  PlanReading plan = reading_of(1, 1, {2});
  plan.use.data = 8;
  plan.zero = {ZeroStage::value, 2, false, 1};
  FrameworkPlan made = nearest_degrees(plan, "F").value();
  EXPECT_EQ(made.zero_degree, 4);
  AskedPlan asked = asked_plan(plan, made);
  for (const char* setting : {"cluster.mesh=\"2x4\"", "search.batch_axes=\"0,1\"", "search.zero_axes=\"1\"", "search.regather=\"never\""}) EXPECT_TRUE(has_setting(asked, setting)) << setting;

  plan.zero = {};
  plan.use.experts = plan.use.experts_apart = 4;
  made = nearest_degrees(plan, "F").value();
  asked = asked_plan(plan, made);
  EXPECT_EQ(made.ep, 4);
  EXPECT_TRUE(has_setting(asked, "cluster.mesh=\"2x4\""));
  EXPECT_TRUE(has_setting(asked, "search.batch_axes=\"0\""));
  EXPECT_EQ(made.priced.size(), 1U);

  plan.use.experts_apart = 1;
  plan.use.expert_data = 4;  // tokens travel to them
  made = nearest_degrees(plan, "F").value();
  asked = asked_plan(plan, made);
  EXPECT_EQ(made.ep, 4);
  for (const char* setting : {"cluster.mesh=\"2x4\"", "search.batch_axes=\"0,1\"", "search.expert_axes=\"1\""}) EXPECT_TRUE(has_setting(asked, setting)) << setting;
  EXPECT_TRUE(made.priced.empty());
}

TEST(AskedPlan, PinsWhatRunsAgain) {
  PlanReading plan = reading_of(2, 1, {2, 1});
  FrameworkPlan made = nearest_degrees(plan, "F").value();
  made.again = Again::layers;
  made.again_layers = 1;
  const auto pinned = [&] {
    std::vector<std::string> names;
    for (const auto& [name, text] : asked_plan(plan, made).pins) {
      if (text == "recompute") names.push_back(name);
    }
    return names;
  };
  EXPECT_EQ(pinned(), (std::vector<std::string>{"attention_h.0", "norm_h.0", "attention_h.2", "norm_h.2"}));  // the first of each part
  made.again = Again::parts;
  made.parts = {LayerPart::norm};
  EXPECT_EQ(pinned(), (std::vector<std::string>{"norm_h.0", "norm_h.1", "norm_h.2"}));
  made.parts = {};
  made.keeps_products = true;
  EXPECT_EQ(pinned(), (std::vector<std::string>{"norm_h.0", "norm_h.1", "norm_h.2"}));
  made.again = Again::layers;
  made.again_layers = 0;
  EXPECT_TRUE(has_setting(asked_plan(plan, made), "search.recompute=\"all\""));
}

TEST(MergeChunks, PutsNeighboursTogether) {
  FrameworkPlan plan;
  plan.pp = 2;
  plan.chunks = 2;
  plan.layers = {1, 2, 3, 4};
  merge_chunks(plan);
  EXPECT_EQ(plan.layers, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(plan.chunks, 1);
}

TEST(LineText, IsOneLine) { EXPECT_EQ(line_text("a\nb\x01\xc3"), "a?b??"); }

}  // namespace
}  // namespace meshwright::framework
