// Expected figures follow from the formulas in the documentation of torch.optim.
#include "optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace meshwright {
namespace {

double stepped(Optimizer optimizer, double parameter, double gradient, const OptimizerSettings& settings) {
  Tensor value(TensorType{DType::float64, {1}}), slope(TensorType{DType::float64, {1}});
  value.set(0, parameter);
  slope.set(0, gradient);
  OptimizerState state;
  EXPECT_TRUE(take_step(optimizer, settings, slope, value, state).ok());
  return value.get(0);
}

TEST(Optimizer, SgdAndMomentumGoDownTheGradient) {
  EXPECT_DOUBLE_EQ(stepped(Optimizer::sgd, 2, 3, {.learning_rate = 0.1}), 1.7);
  EXPECT_DOUBLE_EQ(stepped(Optimizer::momentum, 2, 3, {.learning_rate = 0.1}), 1.7);
}

TEST(Optimizer, AdamwDecaysAndTakesAStepOfTheLearningRate) {
  const OptimizerSettings settings{.learning_rate = 0.1, .epsilon = 1e-5, .weight_decay = 0.5};
  EXPECT_NEAR(stepped(Optimizer::adamw, 2, 3, settings), 2 * 0.95 - 0.1 * 3 / (3 + 1e-5), 1e-12);
  EXPECT_NEAR(stepped(Optimizer::adamw, 2, -3, settings), 2 * 0.95 + 0.1 * 3 / (3 + 1e-5), 1e-12);
  EXPECT_DOUBLE_EQ(stepped(Optimizer::adamw, 0, 0, settings), 0);  // what is padding stays zero
}

// What torch.optim.Adam(lr=0.1, betas=(0.9, 0.999), eps=0.01) gives, too. Of a parameter of 2 whose gradient is 0.5: moments 0.05 and
// 0.00025, corrected 0.5 and 0.25, so that the step is 0.1 * 0.5 / (0.5 + 0.01).
TEST(Optimizer, AdamTakesAStepOfTheLearningRateWithoutDecay) {
  const OptimizerSettings settings{.learning_rate = 0.1, .epsilon = 0.01, .weight_decay = 0.5};
  EXPECT_NEAR(stepped(Optimizer::adam, 2, 0.5, settings), 1.9019607843137254, 1e-15);
  EXPECT_NEAR(stepped(Optimizer::adam, 2, -0.5, settings), 2.0980392156862746, 1e-15);
  EXPECT_NEAR(stepped(Optimizer::adam, -3, 1e-4, settings), -3 - 0.1 * 1e-4 / (1e-4 + 0.01), 1e-15);
  EXPECT_DOUBLE_EQ(stepped(Optimizer::adam, 2, 0, settings), 2);
}

// What torch.optim makes of 2 in float64, with gradients of 0.5, -1.25 and 3.
TEST(Optimizer, KeepsItsStateFromStepToStep) {
  const OptimizerSettings settings{.learning_rate = 0.1, .epsilon = 0.01, .weight_decay = 0.5};
  const std::pair<Optimizer, std::vector<double>> cases[] = {{Optimizer::sgd, {1.95, 2.075, 1.775}},
                                                             {Optimizer::momentum, {1.95, 2.03, 1.802}},
                                                             {Optimizer::adam, {1.9019607843137254, 1.9457226962876906, 1.9016563873283618}},
                                                             {Optimizer::adamw, {1.8019607843137253, 1.7556246570720042, 1.6237771152590752}}};
  for (const auto& [optimizer, expected] : cases) {
    Tensor value(TensorType{DType::float64, {1}}), slope(TensorType{DType::float64, {1}});
    value.set(0, 2);
    OptimizerState state;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      slope.set(0, std::vector{0.5, -1.25, 3.0}[i]);
      ASSERT_TRUE(take_step(optimizer, settings, slope, value, state).ok());
      EXPECT_NEAR(value.get(0), expected[i], 1e-15) << i;
    }
  }
}

TEST(Optimizer, RefusesOtherTypes) {
  Tensor value(TensorType{DType::int64, {1}}), slope(TensorType{DType::int64, {1}});
  OptimizerState state;
  EXPECT_FALSE(take_step(Optimizer::sgd, {}, slope, value, state).ok());
  Tensor longer(TensorType{DType::int64, {2}});
  EXPECT_FALSE(take_step(Optimizer::sgd, {}, longer, value, state).ok());
}

}  // namespace
}  // namespace meshwright
