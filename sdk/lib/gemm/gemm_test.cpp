#include "gemm.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace meshwright {
namespace {

std::vector<float> random_matrix(std::int64_t elements, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> matrix(static_cast<std::size_t>(elements));
  for (float& element : matrix) element = uniform(random);
  return matrix;
}

TEST(Gemm, IsTheSumOfProducts) {
  std::mt19937 random(5);
  for (int seed = 0; seed < 200; ++seed) {
    Gemm size;
    size.m = 1 + random() % 40;
    size.n = 1 + random() % 40;
    size.k = random() % 50;
    size.transpose_a = random() % 2 == 0;
    size.transpose_b = random() % 2 == 0;
    size.alpha = random() % 2 == 0 ? 1.0F : -0.5F;
    size.beta = random() % 2 == 0 ? 0.0F : 2.0F;
    const std::vector<float> a = random_matrix(size.m * size.k, random), b = random_matrix(size.k * size.n, random);
    std::vector<float> c = random_matrix(size.m * size.n, random);
    const std::vector<float> before = c;
    ASSERT_TRUE(gemm(size, a.data(), b.data(), c.data()));
    for (std::int64_t i = 0; i < size.m; ++i) {
      for (std::int64_t j = 0; j < size.n; ++j) {
        const auto at = static_cast<std::size_t>(i * size.n + j);
        double sum = 0;
        for (std::int64_t p = 0; p < size.k; ++p) {
          const auto left = static_cast<std::size_t>(size.transpose_a ? p * size.m + i : i * size.k + p);
          const auto right = static_cast<std::size_t>(size.transpose_b ? j * size.k + p : p * size.n + j);
          sum += static_cast<double>(a[left]) * b[right];
        }
        ASSERT_NEAR(c[at], size.alpha * sum + size.beta * before[at], 1e-4) << "seed " << seed;
      }
    }
  }
}

TEST(Gemm, WithoutBetaWhatWasThereIsNotRead) {
  std::vector<float> a = {2}, b = {3}, c = {std::numeric_limits<float>::quiet_NaN()};
  ASSERT_TRUE(gemm({.m = 1, .n = 1, .k = 1}, a.data(), b.data(), c.data()));
  EXPECT_EQ(c[0], 6);
}

}  // namespace
}  // namespace meshwright
