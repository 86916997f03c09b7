// Attention as cuDNN is asked for it, each operation read as its manual says, against this backend's own kernels.
#include "dnn_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include "cudnn_backend.h"
#include "dnn_reading.h"

namespace meshwright::cuda {
namespace {

using namespace dnn_attention;
using Numbers = std::vector<std::int64_t>;

// A tensor in doubles, row by row of its sizes, rounded to its type.
struct Values {
  Numbers sizes;
  std::vector<double> numbers;
};

std::int64_t elements_of(const Numbers& sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  return elements;
}

class Reader {
 public:
  Reader(const DnnGraph& graph, std::map<std::int64_t, std::byte*> memory, std::map<std::int64_t, float> scalars)
      : graph_(graph), memory_(std::move(memory)), scalars_(std::move(scalars)) {}

  void run() {
    for (const std::size_t place : graph_.operations) {
      const DnnDescriptor& operation = graph_.descriptors[place];
      switch (operation.kind) {
        case cudnn::kProductOperation:
          multiply(operation);
          break;
        case cudnn::kPointwiseOperation:
          apply(operation);
          break;
        case cudnn::kReductionOperation:
          reduce(operation);
          break;
        case cudnn::kReshapeOperation:
          put(operation, cudnn::kReshapeY, turned(get(operation, cudnn::kReshapeX)));
          break;
        default:
          FAIL() << operation.kind;
      }
    }
  }

 private:
  std::size_t place(const DnnDescriptor& operation, int attribute) const {
    return value(operation, attribute).descriptors.at(0);
  }

  static std::int64_t offset(const Numbers& at, const Numbers& strides) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    return offset;
  }
  template <class Body>
  static void for_each(const Numbers& sizes, const Body& body) {
    Numbers at(sizes.size(), 0);
    for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
      body(at, static_cast<std::size_t>(i));
      for (std::size_t d = sizes.size(); d-- > 0 && ++at[d] == sizes[d];) at[d] = 0;
    }
  }
  // Of a tensor in which dimensions of one element stand for all.
  static double at(const Values& values, const Numbers& place) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < place.size(); ++d)
      offset = offset * values.sizes[d] + (values.sizes[d] == 1 ? 0 : place[d]);
    return values.numbers[static_cast<std::size_t>(offset)];
  }

  static Element element(const DnnDescriptor& tensor) {
    return number<std::int32_t>(tensor, cudnn::kTensorType) == cudnn::kBFloat16 ? Element::bfloat16 : Element::float32;
  }
  Values get(const DnnDescriptor& operation, int attribute) const {
    const std::size_t which = place(operation, attribute);
    if (const auto made = between_.find(which); made != between_.end()) return made->second;
    const DnnDescriptor& tensor = graph_.descriptors[which];
    Values values{numbers(tensor, cudnn::kTensorSizes), {}};
    const Numbers strides = numbers(tensor, cudnn::kTensorStrides);
    const auto id = number<std::int64_t>(tensor, cudnn::kTensorId);
    if (find_value(tensor, cudnn::kTensorIsByValue) != nullptr) {
      values.numbers = {scalars_.at(id)};
      return values;
    }
    for_each(values.sizes, [&](const Numbers& at, std::size_t) {
      values.numbers.push_back(load(memory_.at(id), element(tensor), offset(at, strides)));
    });
    return values;
  }
  void put(const DnnDescriptor& operation, int attribute, Values values) {
    const std::size_t which = place(operation, attribute);
    const DnnDescriptor& tensor = graph_.descriptors[which];
    ASSERT_EQ(values.sizes, numbers(tensor, cudnn::kTensorSizes));
    if (element(tensor) == Element::bfloat16) {
      for (double& each : values.numbers) each = to_float(to_bfloat16(static_cast<float>(each)));
    }
    if (find_value(tensor, cudnn::kTensorIsVirtual) != nullptr) {
      between_[which] = std::move(values);
      return;
    }
    const Numbers strides = numbers(tensor, cudnn::kTensorStrides);
    std::byte* memory = memory_.at(number<std::int64_t>(tensor, cudnn::kTensorId));
    for_each(values.sizes, [&](const Numbers& at, std::size_t i) {
      store(memory, element(tensor), offset(at, strides), values.numbers[i]);
    });
  }

  // c[..., m, n] = Σ a[..., m, k]·b[..., k, n], with batches that are repeated.
  void multiply(const DnnDescriptor& operation) {
    const Values a = get(operation, cudnn::kProductA), b = get(operation, cudnn::kProductB);
    Values made{a.sizes, {}};
    for (std::size_t d = 0; d < 2; ++d) made.sizes[d] = std::max(a.sizes[d], b.sizes[d]);
    made.sizes[3] = b.sizes[3];
    ASSERT_EQ(a.sizes[3], b.sizes[2]);
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.sizes[3]; ++k)
        sum += at(a, {place[0], place[1], place[2], k}) * at(b, {place[0], place[1], k, place[3]});
      made.numbers.push_back(sum);
    });
    put(operation, cudnn::kProductC, std::move(made));
  }

  void apply(const DnnDescriptor& operation) {
    const DnnDescriptor& function = graph_.descriptors[place(operation, cudnn::kPointwiseWhat)];
    const auto mode = number<std::int32_t>(function, cudnn::kPointwiseMode);
    const Values x = get(operation, cudnn::kPointwiseX);
    Values b = x, chooses = x;
    if (find_value(operation, cudnn::kPointwiseB) != nullptr) b = get(operation, cudnn::kPointwiseB);
    if (find_value(operation, cudnn::kPointwiseT) != nullptr) chooses = get(operation, cudnn::kPointwiseT);
    Values made{x.sizes, {}};
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      const double own = at(x, place), other = at(b, place);
      made.numbers.push_back(
          mode == cudnn::kAdd           ? own + other
          : mode == cudnn::kSubtract    ? own - other
          : mode == cudnn::kMultiply    ? own * other
          : mode == cudnn::kDivide      ? own / other
          : mode == cudnn::kExponential ? std::exp(own)
          : mode == cudnn::kLogarithm   ? std::log(own)
          : mode == cudnn::kNotLess     ? (own >= other ? 1.0 : 0.0)
          : mode == cudnn::kSelect      ? (at(chooses, place) != 0 ? own : other)
          : mode == cudnn::kIndex
              ? static_cast<double>(
                    place[static_cast<std::size_t>(number<std::int64_t>(function, cudnn::kPointwiseAxis))])
              : NAN);
    });
    put(operation, cudnn::kPointwiseY, std::move(made));
  }

  void reduce(const DnnDescriptor& operation) {
    const DnnDescriptor& reduction = graph_.descriptors[place(operation, cudnn::kReductionWhat)];
    const bool sums = number<std::int32_t>(reduction, cudnn::kReductionOperator) == cudnn::kSum;
    const Values x = get(operation, cudnn::kReductionX);
    Values made{numbers(graph_.descriptors[place(operation, cudnn::kReductionY)], cudnn::kTensorSizes), {}};
    // Over the dimension that has become one.
    const std::size_t reduced = made.sizes[3] == 1 ? 3 : 1;
    Numbers kept = x.sizes;
    kept[reduced] = 1;
    ASSERT_EQ(made.sizes, kept);
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      double combined = sums ? 0 : -INFINITY;
      Numbers from = place;
      for (from[reduced] = 0; from[reduced] < x.sizes[reduced]; ++from[reduced]) {
        const double number = at(x, from);
        combined = sums ? combined + number : std::max(combined, number);
      }
      made.numbers.push_back(combined);
    });
    put(operation, cudnn::kReductionY, std::move(made));
  }

  // A reshape, to a tensor that has rows and columns exchanged in memory.
  static Values turned(const Values& x) {
    Values made{{x.sizes[0], x.sizes[1], x.sizes[3], x.sizes[2]}, {}};
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      made.numbers.push_back(at(x, {place[0], place[1], place[3], place[2]}));
    });
    return made;
  }

  const DnnGraph& graph_;
  const std::map<std::int64_t, std::byte*> memory_;
  const std::map<std::int64_t, float> scalars_;
  std::map<std::size_t, Values> between_;
};

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
    Reader(graph, memory, {{kScale, 0.5F}, {kUnseen, std::numeric_limits<float>::lowest()}}).run();
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
