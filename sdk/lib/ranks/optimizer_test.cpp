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
  EXPECT_TRUE(take_first_step(optimizer, settings, slope, value).ok());
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

TEST(Optimizer, RefusesOtherTypes) {
  Tensor value(TensorType{DType::int64, {1}}), slope(TensorType{DType::int64, {1}});
  EXPECT_FALSE(take_first_step(Optimizer::sgd, {}, slope, value).ok());
  Tensor longer(TensorType{DType::int64, {2}});
  EXPECT_FALSE(take_first_step(Optimizer::sgd, {}, longer, value).ok());
}

}  // namespace
}  // namespace meshwright
