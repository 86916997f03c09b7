// Attention as cuDNN is asked for it, each operation read as its manual says, against this backend's own kernels.
#include "dnn_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "dnn_attention_reading.h"

namespace meshwright::cuda {
namespace {

using namespace dnn_attention;
struct Shape {
  std::int64_t batches, repeats, l, s;
  bool causal;
};

class DnnAttention : public testing::TestWithParam<Shape> {
 protected:
  static constexpr std::int64_t kWidth = 8;

  void SetUp() override {
    const Shape& shape = GetParam();
    a_.l = shape.l;
    a_.s = shape.s;
    a_.d = a_.e = kWidth;
    a_.repeats = shape.repeats;
    a_.rows = shape.batches * shape.repeats * shape.l;
    a_.scale = 0.5;
    a_.causal = shape.causal;
    a_.queries.count = 1;
    a_.queries.atoms[0] = a_.queries.extents[0] = shape.l;
    const std::int64_t keys = shape.batches * shape.s;
    take(kQuery, a_.query, a_.rows);
    take(kKey, a_.key, keys);
    take(kValue, a_.value, keys);
    take(kOutput, a_.output, a_.rows);
    take(kGradient, a_.gradient, a_.rows);
    View unused;
    take(kQueryGradient, unused, a_.rows);
    take(kKeyGradient, unused, keys);
    take(kValueGradient, unused, keys);
    memory_[kStatistics].resize(static_cast<std::size_t>(a_.rows) * sizeof(float));
    probabilities_.resize(static_cast<std::size_t>(a_.rows * a_.s));
    slopes_ = probabilities_;
    a_.probabilities = probabilities_.data();
    a_.slopes = slopes_.data();
  }

  void take(std::int64_t id, View& view, std::int64_t rows) {
    std::vector<std::byte>& bytes = memory_[id];
    bytes.resize(static_cast<std::size_t>(rows * kWidth * 2));
    view.element = Element::bfloat16;
    view.data = bytes.data();
    for (std::int64_t i = 0; i < rows * kWidth; ++i)
      store(bytes.data(), view.element, i, std::sin(static_cast<double>(3 * i + 7 * id)));
  }
  std::byte* at(std::int64_t id) { return memory_.at(id).data(); }

  void read(const DnnGraph& graph) {
    std::map<std::int64_t, std::byte*> memory;
    for (auto& [id, bytes] : memory_) memory[id] = bytes.data();
    memory[kTurnedKey] = at(kKey);
    memory[kTurnedValue] = at(kValue);
    AttentionReader(graph, memory, {{kScale, 0.5F}, {kUnseen, std::numeric_limits<float>::lowest()}}).run();
  }
  // The same by a kernel, of so many elements.
  std::vector<double> by_kernel(KernelId kernel, std::int64_t count) {
    std::vector<std::byte> made(static_cast<std::size_t>(count) * 2);
    a_.result.element = Element::bfloat16;
    a_.result.data = made.data();
    cuda::kernel(kernel).on_host(&a_, count);
    return doubles(made.data(), count);
  }
  static std::vector<double> doubles(const std::byte* memory, std::int64_t count) {
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(load(memory, Element::bfloat16, i));
    return numbers;
  }
  // Up to the rounding of what is between.
  static void expect_near(const std::vector<double>& made, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], expected[i], 0.02) << i;
  }

  AttentionArguments a_;
  std::map<std::int64_t, std::vector<std::byte>> memory_;
  std::vector<double> probabilities_, slopes_;
};

TEST_P(DnnAttention, IsWhatItsManualReads) {
  const std::optional<DnnGraph> graph = attention_graph(a_);
  ASSERT_TRUE(graph);
  read(*graph);
  cuda::kernel(KernelId::attention_probabilities).on_host(&a_, a_.rows);
  const std::vector<double> output = by_kernel(KernelId::attention_result, a_.rows * kWidth);
  expect_near(doubles(at(kOutput), a_.rows * kWidth), output);
  const std::optional<DnnGraph> gradients = attention_gradient_graph(a_);
  ASSERT_TRUE(gradients);
  read(*gradients);
  cuda::kernel(KernelId::attention_slopes).on_host(&a_, a_.rows);
  const std::int64_t keys = a_.rows / a_.l / a_.repeats * a_.s;
  expect_near(doubles(at(kQueryGradient), a_.rows * kWidth),
              by_kernel(KernelId::attention_query_gradient, a_.rows * kWidth));
  expect_near(doubles(at(kKeyGradient), keys * kWidth), by_kernel(KernelId::attention_key_gradient, keys * kWidth));
  expect_near(doubles(at(kValueGradient), keys * kWidth), by_kernel(KernelId::attention_value_gradient, keys * kWidth));
}

INSTANTIATE_TEST_SUITE_P(Shapes, DnnAttention,
                         testing::Values(Shape{2, 1, 5, 5, true}, Shape{2, 1, 4, 6, false}, Shape{1, 3, 4, 4, true},
                                         Shape{3, 1, 1, 7, false}, Shape{2, 2, 3, 5, true}),
                         [](const auto& info) { return "shape" + std::to_string(info.index); });

using DnnAttentionOf = DnnAttention;
TEST_P(DnnAttentionOf, TakesWhatItIs) {
  AttentionArguments other = a_;
  other.has_mask = true;
  EXPECT_FALSE(attention_graph(other));
  const AttentionBias bias{1, {1, 1, other.l, other.s}};
  EXPECT_TRUE(attention_graph(other, bias));
  EXPECT_FALSE(attention_graph(a_, bias));
  other = a_;
  other.dropout = 0.5;
  EXPECT_FALSE(attention_graph(other));
  other = a_;
  other.value.element = Element::float32;
  EXPECT_FALSE(attention_graph(other));
  other = a_;
  other.e = 16;
  EXPECT_FALSE(attention_graph(other));
  other = a_;
  other.queries.starts[0] = 2;
  other.queries.atoms[0] = other.l + 2;
  EXPECT_EQ(attention_graph(other).has_value(), !other.causal);
}
INSTANTIATE_TEST_SUITE_P(Shapes, DnnAttentionOf, testing::Values(Shape{2, 1, 5, 5, true}, Shape{2, 1, 4, 6, false}),
                         [](const auto& info) { return "shape" + std::to_string(info.index); });

}  // namespace
}  // namespace meshwright::cuda
