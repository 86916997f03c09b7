// Bytes of a number's training, as Rajbhandari et al. 2020, section 3.1, count them: with AdamW in half precision 2 + 2 + 12.
#include "meshwright/training.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

struct Expected {
  Optimizer optimizer;
  std::int64_t values, fp32_state, half_state;  // the half's with its master copy in fp32
};

constexpr Expected kExpected[] = {{Optimizer::sgd, 0, 0, 4},
                                  {Optimizer::momentum, 1, 4, 8},
                                  {Optimizer::adam, 2, 8, 12},
                                  {Optimizer::adamw, 2, 8, 12}};

TEST(TrainingSettings, KnowWhatAnOptimizerKeeps) {
  for (const Expected& expected : kExpected) {
    TrainingSettings training;
    training.optimizer = expected.optimizer;
    EXPECT_EQ(training.optimizer_values(), expected.values);
    EXPECT_EQ(training.optimizer_bytes(DType::float32), expected.fp32_state);
    EXPECT_EQ(training.optimizer_bytes(DType::bfloat16), expected.half_state);
    EXPECT_EQ(training.optimizer_bytes(DType::float16), expected.half_state);
    training.master_dtype = DType::bfloat16;  // no copy, and state of two bytes
    EXPECT_EQ(training.optimizer_bytes(DType::bfloat16), 2 * expected.values);
  }
}

TEST(TrainingSettings, KeepGradientsInTheirOwnDtypeOrAnother) {
  TrainingSettings training;
  EXPECT_EQ(training.gradient_bytes(DType::float32), 4);
  EXPECT_EQ(training.gradient_bytes(DType::bfloat16), 2);
  training.reduce_dtype = DType::float32;
  EXPECT_EQ(training.gradient_bytes(DType::bfloat16), 4);
  training.reduce_dtype = DType::bfloat16;
  EXPECT_EQ(training.gradient_bytes(DType::float32), 2);
}

// The step reads the gradient, reads and writes the value and each number of the state; with a master copy it reads and
// writes that, and only writes the value.
TEST(TrainingSettings, KnowWhatAStepMoves) {
  TrainingSettings training;
  EXPECT_EQ(training.step_bytes(DType::float32), 4 + 8 + 16);
  EXPECT_EQ(training.step_bytes(DType::bfloat16), 2 + 2 + 8 + 16);
  training.reduce_dtype = DType::float32;
  EXPECT_EQ(training.step_bytes(DType::bfloat16), 4 + 2 + 8 + 16);
  training.optimizer = Optimizer::sgd;
  training.reduce_dtype.reset();
  EXPECT_EQ(training.step_bytes(DType::float32), 4 + 8);
}

// ZeRO, section 5: stage 2 and 3 reduce each gradient to shards as soon as it is there.
TEST(TrainingSettings, KnowWhenGradientsAreReduced) {
  for (const std::int64_t microbatches : {1, 4}) {
    for (const bool kept : {true, false}) {
      TrainingSettings training;
      training.microbatches = microbatches;
      training.keep_gradients = kept;
      EXPECT_EQ(training.reduces_each_microbatch(ZeroStage::none), !kept);
      EXPECT_EQ(training.reduces_each_microbatch(ZeroStage::optimizer), !kept);
      EXPECT_TRUE(training.reduces_each_microbatch(ZeroStage::gradient));
      EXPECT_TRUE(training.reduces_each_microbatch(ZeroStage::value));
      for (const ZeroStage stage : {ZeroStage::none, ZeroStage::gradient, ZeroStage::value}) EXPECT_FALSE(training.reduces_at_end(stage));
      EXPECT_EQ(training.reduces_at_end(ZeroStage::optimizer), kept && microbatches == 1);
    }
  }
}

TEST(TrainingSettings, ReadAnOptimizersName) {
  EXPECT_EQ(*parse_optimizer("adam"), Optimizer::adam);
  EXPECT_EQ(*parse_optimizer("momentum"), Optimizer::momentum);
  EXPECT_EQ(parse_optimizer("lion").error().message, "[train] optimizer 'lion': known are sgd, momentum, adam, adamw");
}

}  // namespace
}  // namespace meshwright
