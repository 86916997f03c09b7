// Norms as cuDNN is asked for them: each field of the operation read as its manual says, against this backend's own
// kernels.
#include "dnn_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "cudnn_backend.h"
#include "dnn_reading.h"

#ifdef MESHWRIGHT_CUDNN_HEADER
#include <cudnn.h>

namespace meshwright::cuda::cudnn {

static_assert(kNormForward == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
              kNormBackward == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR &&
              kOfNormMode == CUDNN_TYPE_NORM_MODE && kOfNormPhase == CUDNN_TYPE_NORM_FWD_PHASE);
static_assert(kNormMode == CUDNN_ATTR_OPERATION_NORM_FWD_MODE && kNormPhase == CUDNN_ATTR_OPERATION_NORM_FWD_PHASE &&
              kNormX == CUDNN_ATTR_OPERATION_NORM_FWD_XDESC &&
              kNormWeight == CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC &&
              kNormBias == CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC &&
              kNormEpsilon == CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC &&
              kNormY == CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
static_assert(kNormBackwardMode == CUDNN_ATTR_OPERATION_NORM_BWD_MODE &&
              kNormBackwardX == CUDNN_ATTR_OPERATION_NORM_BWD_XDESC &&
              kNormBackwardMean == CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC &&
              kNormBackwardDeviation == CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC &&
              kNormBackwardGradient == CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC &&
              kNormBackwardWeight == CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC &&
              kNormBackwardWeightGradient == CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC &&
              kNormBackwardBiasGradient == CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC &&
              kNormBackwardInputGradient == CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
static_assert(kLayerNorm == CUDNN_LAYER_NORM && kRmsNorm == CUDNN_RMS_NORM && kInference == CUDNN_NORM_FWD_INFERENCE);

}  // namespace meshwright::cuda::cudnn
#endif

namespace meshwright::cuda {
namespace {

using namespace dnn_norm;
using Doubles = std::vector<double>;

constexpr std::int64_t kRows = 5, kExtent = 6;

// Numbers of all tensors, by id, and the kernels' arguments for the same.
class DnnNorm : public testing::TestWithParam<std::tuple<bool, Element>> {
 protected:
  void SetUp() override {
    const auto [rms, element] = GetParam();
    a_.rows = kRows;
    a_.extent = kExtent;
    a_.epsilon = 0.01;
    a_.rms = rms;
    a_.has_weight = true;
    a_.has_bias = !rms;
    a_.statistics = statistics_.data();
    a_.means = means_.data();
    a_.deviations = deviations_.data();
    a_.chunk = kRows;
    place(kInput, a_.input, kRows * kExtent);
    place(kWeight, a_.weight, kExtent);
    place(kBias, a_.bias, kExtent);
    place(kGradient, a_.gradient, kRows * kExtent);
    cuda::kernel(KernelId::norm_statistics).on_host(&a_, kRows);
  }

  void place(std::int64_t id, View& view, std::int64_t count) {
    std::vector<std::byte>& bytes = memory_[id];
    bytes.resize(static_cast<std::size_t>(count) * 4);
    view.element = std::get<1>(GetParam());
    view.data = bytes.data();
    for (std::int64_t i = 0; i < count; ++i) {
      store(view, i, std::sin(static_cast<double>(3 * i + 7 * id)) + 0.5);
      numbers_[id].push_back(load(view, i));
    }
  }

  // What a kernel makes of them.
  Doubles by_kernel(KernelId kernel, std::int64_t indices, std::int64_t count) {
    std::vector<double> made(static_cast<std::size_t>(count));
    a_.result.element = Element::float64;
    a_.result.data = made.data();
    cuda::kernel(kernel).on_host(&a_, indices);
    return made;
  }

  // The operation of a graph, and which tensor it has where, of which sizes.
  struct Read {
    explicit Read(const DnnGraph& of) : graph(of), operation(of.descriptors.at(of.operations.at(0))) {}
    [[nodiscard]] std::int64_t id(int attribute, std::int64_t rows, std::int64_t columns, bool is_float = false) const {
      const DnnDescriptor& tensor = graph.descriptors.at(value(operation, attribute).descriptors.at(0));
      EXPECT_EQ(numbers(tensor, cudnn::kTensorSizes), (std::vector<std::int64_t>{rows, columns, 1, 1}));
      EXPECT_EQ(numbers(tensor, cudnn::kTensorStrides), (std::vector<std::int64_t>{columns, 1, columns, columns}));
      EXPECT_EQ(number<std::int32_t>(tensor, cudnn::kTensorType),
                is_float || std::get<1>(GetParam()) == Element::float32 ? cudnn::kFloat : cudnn::kBFloat16);
      return number<std::int64_t>(tensor, cudnn::kTensorId);
    }
    const DnnGraph& graph;
    const DnnDescriptor& operation;
  };

  static void expect_near(const Doubles& made, const Doubles& expected) {
    ASSERT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-5) << i;
  }

  NormArguments a_;
  std::map<std::int64_t, std::vector<std::byte>> memory_;
  std::map<std::int64_t, Doubles> numbers_;
  std::vector<double> statistics_ = std::vector<double>(2 * kRows);
  std::vector<float> means_ = std::vector<float>(kRows), deviations_ = std::vector<float>(kRows);
};

// y = (x - mean) · deviation · weight + bias; without mean and bias for the root mean square.
TEST_P(DnnNorm, IsWhatItsManualReads) {
  const bool rms = a_.rms;
  a_.result.element = a_.input.element;
  const std::optional<DnnGraph> graph = norm_graph(a_);
  ASSERT_TRUE(graph);
  const Read read(*graph);
  EXPECT_EQ(read.operation.kind, cudnn::kNormForward);
  EXPECT_EQ(number<std::int32_t>(read.operation, cudnn::kNormMode), rms ? cudnn::kRmsNorm : cudnn::kLayerNorm);
  EXPECT_EQ(number<std::int32_t>(read.operation, cudnn::kNormPhase), cudnn::kInference);
  EXPECT_EQ(read.id(cudnn::kNormEpsilon, 1, 1, true), kEpsilon);
  EXPECT_EQ(read.id(cudnn::kNormY, kRows, kExtent), kOutput);
  const Doubles &x = numbers_.at(read.id(cudnn::kNormX, kRows, kExtent)),
                &weight = numbers_.at(read.id(cudnn::kNormWeight, 1, kExtent));
  Doubles bias(kExtent, 0), made;
  if (!rms) bias = numbers_.at(read.id(cudnn::kNormBias, 1, kExtent));
  EXPECT_EQ(find_value(read.operation, cudnn::kNormBias) != nullptr, !rms);
  for (std::int64_t row = 0; row < kRows; ++row) {
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < kExtent; ++i)
      mean += rms ? 0 : x[static_cast<std::size_t>(row * kExtent + i)] / kExtent;
    for (std::int64_t i = 0; i < kExtent; ++i)
      square += std::pow(x[static_cast<std::size_t>(row * kExtent + i)] - mean, 2) / kExtent;
    for (std::size_t i = 0; i < kExtent; ++i)
      made.push_back((x[static_cast<std::size_t>(row) * kExtent + i] - mean) / std::sqrt(square + a_.epsilon) *
                         weight[i] +
                     bias[i]);
  }
  expect_near(made, by_kernel(KernelId::norm_rows, kRows, kRows * kExtent));
}

// With y the normalized input and h = gradient · weight: dx = deviation · (h − mean(h) − y · mean(h · y)).
TEST_P(DnnNorm, HasTheGradientsThatItsManualReads) {
  const bool rms = a_.rms;
  a_.has_bias = false;  // the backward is not given it
  const std::optional<DnnGraph> graph = norm_gradient_graph(a_);
  ASSERT_TRUE(graph);
  const Read read(*graph);
  EXPECT_EQ(read.operation.kind, cudnn::kNormBackward);
  EXPECT_EQ(number<std::int32_t>(read.operation, cudnn::kNormBackwardMode), rms ? cudnn::kRmsNorm : cudnn::kLayerNorm);
  EXPECT_EQ(read.id(cudnn::kNormBackwardDeviation, kRows, 1, true), kDeviation);
  EXPECT_EQ(read.id(cudnn::kNormBackwardInputGradient, kRows, kExtent), kInputGradient);
  EXPECT_EQ(read.id(cudnn::kNormBackwardWeightGradient, 1, kExtent), kWeightGradient);
  for (const int attribute : {cudnn::kNormBackwardMean, cudnn::kNormBackwardBiasGradient})
    EXPECT_EQ(find_value(read.operation, attribute) != nullptr, !rms);
  if (!rms) {
    EXPECT_EQ(read.id(cudnn::kNormBackwardMean, kRows, 1, true), kMean);
    EXPECT_EQ(read.id(cudnn::kNormBackwardBiasGradient, 1, kExtent), kBiasGradient);
  }
  const Doubles &x = numbers_.at(read.id(cudnn::kNormBackwardX, kRows, kExtent)),
                &gradient = numbers_.at(read.id(cudnn::kNormBackwardGradient, kRows, kExtent)),
                &weight = numbers_.at(read.id(cudnn::kNormBackwardWeight, 1, kExtent));
  Doubles of_input(x.size()), of_weight(kExtent, 0), of_bias(kExtent, 0);
  for (std::size_t row = 0; row < kRows; ++row) {
    const double mean = means_[row], deviation = deviations_[row];
    const auto y = [&](std::size_t i) { return (x[row * kExtent + i] - (rms ? 0 : mean)) * deviation; };
    const auto h = [&](std::size_t i) { return gradient[row * kExtent + i] * weight[i]; };
    double sum = 0, product = 0;
    for (std::size_t i = 0; i < kExtent; ++i) {
      sum += rms ? 0 : h(i) / kExtent;
      product += h(i) * y(i) / kExtent;
      of_weight[i] += gradient[row * kExtent + i] * y(i);
      of_bias[i] += gradient[row * kExtent + i];
    }
    for (std::size_t i = 0; i < kExtent; ++i) of_input[row * kExtent + i] = deviation * (h(i) - sum - y(i) * product);
  }
  expect_near(of_input, by_kernel(KernelId::norm_input_gradient, kRows, kRows * kExtent));
  expect_near(of_weight, by_kernel(KernelId::norm_weight_gradient, kExtent, kExtent));
  expect_near(of_bias, by_kernel(KernelId::norm_bias_gradient, kExtent, kExtent));
}

TEST_P(DnnNorm, TakesWhatItIs) {
  a_.result.element = a_.input.element;
  NormArguments other = a_;
  other.has_weight = false;
  EXPECT_FALSE(norm_graph(other));
  EXPECT_FALSE(norm_gradient_graph(other));
  other = a_;
  other.weight.element = Element::float64;
  EXPECT_FALSE(norm_graph(other));
  EXPECT_FALSE(norm_gradient_graph(other));
  other = a_;
  other.has_bias = a_.rms;
  EXPECT_FALSE(norm_graph(other));
  other = a_;
  other.rows = 0;
  EXPECT_FALSE(norm_graph(other));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DnnNorm,
                         testing::Combine(testing::Bool(), testing::Values(Element::float32, Element::bfloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "rms" : "layer") +
                                  (std::get<1>(info.param) == Element::float32 ? "_float" : "_half");
                         });

}  // namespace
}  // namespace meshwright::cuda
