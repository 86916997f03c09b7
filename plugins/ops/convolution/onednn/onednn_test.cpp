// The kernels against the family's own definition, on random shapes.
#include "onednn.h"

#include <gtest/gtest.h>

#include <random>

#include "../convolution.h"

namespace meshwright {
namespace {

using Shape = std::vector<std::int64_t>;

class OnednnConvolutionTest : public ::testing::Test {
 protected:
  std::int64_t number(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(to - from + 1));
  }

  Tensor tensor(const TensorType& type) {
    Tensor made(type);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& element : made.as<float>()) element = uniform(random_);
    return made;
  }

  void check(Node node, const std::vector<Shape>& shapes, const Shape& result) {
    std::vector<Tensor> operands;
    OpCall call{node, {}, {TensorType{DType::float32, result}}};
    for (const Shape& shape : shapes) {
      operands.push_back(tensor({DType::float32, shape}));
      call.operands.push_back(operands.back().type());
    }
    std::vector<const Tensor*> pointers;
    for (const Tensor& operand : operands) pointers.push_back(&operand);
    const Result<std::vector<Tensor>> results = OnednnConvolution().compute(call, pointers);
    ASSERT_TRUE(results.ok()) << results.error().message;
    ASSERT_EQ(results->size(), 1U);
    const std::vector<Tensor> expected = convolution_evaluate(call, pointers).value();
    for (std::int64_t i = 0; i < expected[0].elements(); ++i) {
      ASSERT_NEAR((*results)[0].get(i), expected[0].get(i), 1e-4) << node.op << " at " << i;
    }
  }

  std::mt19937 random_{23};
};

TEST_F(OnednnConvolutionTest, ForwardAndGradients) {
  for (int i = 0; i < 60; ++i) {
    const std::size_t space = i % 3 == 0 ? 1 : 2;
    const std::int64_t samples = number(1, 3), groups = number(1, 3);
    Shape input = {samples, groups * number(1, 4)}, output = {samples, groups * number(1, 4)};
    Shape weight = {output[1], input[1] / groups};
    std::vector<std::int64_t> stride, padding, dilation;
    for (std::size_t d = 0; d < space; ++d) {
      stride.push_back(number(1, 3));
      padding.push_back(number(0, 2));
      dilation.push_back(number(1, 2));
      weight.push_back(number(1, 3));
      input.push_back(number(6, 11));
      output.push_back((input.back() + 2 * padding[d] - dilation[d] * (weight.back() - 1) - 1) / stride[d] + 1);
    }
    Node node;
    node.attributes = {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
    node.op = "aten.convolution";
    check(node, {input, weight, {output[1]}}, output);
    check(node, {input, weight}, output);
    node.op = kInputGradient;
    check(node, {output, weight}, input);
    node.op = kWeightGradient;
    check(node, {output, input}, weight);
  }
}

TEST_F(OnednnConvolutionTest, PaddingToTheSameSize) {
  Node node;
  node.op = "aten.conv2d.padding";
  node.attributes = {{"padding", std::string("same")}};
  check(node, {{2, 3, 7, 6}, {4, 3, 4, 3}}, {2, 4, 7, 6});
}

TEST_F(OnednnConvolutionTest, LeavesOtherTypesToTheFamily) {
  Node node;
  node.op = "aten.conv1d";
  const TensorType type{DType::float64, {1, 1, 1}};
  const Tensor a(type);
  const std::vector<const Tensor*> operands = {&a, &a};
  const Result<std::vector<Tensor>> results = OnednnConvolution().compute({node, {type, type}, {type}}, operands);
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(results->empty());
}

}  // namespace
}  // namespace meshwright
