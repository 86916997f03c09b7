#include "stage_order.h"

#include <gtest/gtest.h>

#include <string>

#include "microbatch_groups.h"

namespace meshwright {
namespace {

// "F0.1": kind, chunk, microbatch.
std::string text(StageOrder& order) {
  std::string result;
  for (const PipelineEvent& event : order.take()) {
    result += (result.empty() ? "" : " ") + std::string(1, letter(event.kind)) + std::to_string(event.chunk) + "." +
              std::to_string(event.microbatch);
  }
  return result;
}

TEST(StageOrder, TakesTheNextMicrobatchOfEachChunk) {
  StageOrder order({1, 2, 2});
  order.forward(0);
  order.forward(1);
  order.forward(0);
  order.backward(0);
  order.input_gradient(0);
  order.oldest_weight_gradient();
  EXPECT_EQ(order.forwards(0), 2);
  EXPECT_EQ(order.backwards(0), 2);
  EXPECT_EQ(text(order), "F0.0 F1.0 F0.1 B0.0 I0.1 W0.1");
}

TEST(StageOrder, WeightGradientsComeInTheOrderOfTheirInputs) {
  StageOrder order({1, 2, 3});
  order.input_gradient(1);
  order.input_gradient(0);
  order.input_gradient(1);
  order.input_gradient(0);
  order.take();
  order.weight_gradient(0);
  order.oldest_weight_gradient();
  order.oldest_weight_gradient();
  order.weight_gradient(1);  // none is left of it
  order.weight_gradient(0);
  order.oldest_weight_gradient();
  EXPECT_EQ(text(order), "W0.0 W1.0 W1.1 W0.1");
}

TEST(StageOrder, LeavesOutMicrobatchesThatAreNotThere) {
  StageOrder order({1, 1, 1});
  for (int i = 0; i < 3; ++i) order.forward(0);
  for (int i = 0; i < 3; ++i) order.input_gradient(0);
  for (int i = 0; i < 3; ++i) order.weight_gradient(0);
  EXPECT_EQ(order.forwards(0), 3);
  EXPECT_EQ(text(order), "F0.0 I0.0 W0.0");
}

TEST(StageOrder, PlacesChunks) {
  EXPECT_EQ(loop_positions({3, 2, 1}), (std::vector<std::uint32_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(v_positions({3, 2, 1}), (std::vector<std::uint32_t>{0, 5, 1, 4, 2, 3}));
}

TEST(StageOrder, SettlesOnSizes) {
  const ChunkChoice one = {.usual = 1, .instead = "other has any number"};
  EXPECT_EQ(settle({2, 0, 3}, "mine", one).value(), (ScheduleShape{2, 1, 3}));
  EXPECT_EQ(settle({2, 5, 3}, "mine", {.usual = 2, .any = true}).value(), (ScheduleShape{2, 5, 3}));
  EXPECT_EQ(settle({2, 0, 3}, "mine", {.usual = 2, .any = true}).value(), (ScheduleShape{2, 2, 3}));
  EXPECT_EQ(
      settle({2, 2, 3}, "mine", one).error().message,
      "mine has 1 chunk on each stage, not 2; leave out their number, or take another schedule: other has any number");
  EXPECT_EQ(settle({0, 1, 3}, "mine", one).error().message, "mine needs the number of stages; give at least 1");
  EXPECT_EQ(settle({2, 1, 0}, "mine", one).error().message, "mine needs the number of microbatches; give at least 1");
  // Each alone is possible.
  EXPECT_EQ(settle({4096, 0, 256}, "mine", {.usual = 2, .any = true}).error().code, ErrorCode::bad_input);
}

// Megatron's groups where p divides m, and none smaller than p otherwise.
TEST(MicrobatchGroups, AreEven) {
  using Chunks = std::vector<std::uint32_t>;
  EXPECT_EQ(microbatch_groups({2, 2, 4}).chunks, (Chunks{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(microbatch_groups({2, 2, 4}).largest, 2);
  EXPECT_EQ(microbatch_groups({2, 2, 5}).chunks, (Chunks{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(microbatch_groups({2, 2, 5}).largest, 3);
  EXPECT_EQ(microbatch_groups({4, 2, 2}).chunks, (Chunks{0, 0, 1, 1}));
  EXPECT_EQ(microbatch_groups({4, 2, 2}).largest, 2);
}

}  // namespace
}  // namespace meshwright
