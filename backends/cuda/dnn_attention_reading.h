// For tests: what an attention's graph computes, where there is no cuDNN to ask.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "cudnn_backend.h"
#include "dnn_reading.h"
#include "kernels/kernel.h"

namespace meshwright::cuda {

// The operations of an attention's graph, on the host, each as cuDNN's manual says.
class AttentionReader {
 public:
  AttentionReader(const DnnGraph& graph, std::map<std::int64_t, std::byte*> memory,
                  std::map<std::int64_t, float> scalars)
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
  using Numbers = std::vector<std::int64_t>;
  // A tensor in doubles, row by row of its sizes, rounded to its type.
  struct Values {
    Numbers sizes;
    std::vector<double> numbers;
  };

  static std::int64_t elements_of(const Numbers& sizes) {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    return elements;
  }

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

  // c[..., m, n] = Σ a[..., m, k]·b[..., k, n], with batches that are repeated, and heads of b that some of a share.
  void multiply(const DnnDescriptor& operation) {
    const Values a = get(operation, cudnn::kProductA), b = get(operation, cudnn::kProductB);
    Values made{a.sizes, {}};
    for (std::size_t d = 0; d < 2; ++d) made.sizes[d] = std::max(a.sizes[d], b.sizes[d]);
    made.sizes[3] = b.sizes[3];
    ASSERT_EQ(a.sizes[3], b.sizes[2]);
    const std::int64_t share = made.sizes[1] / b.sizes[1];
    ASSERT_EQ(share * b.sizes[1], made.sizes[1]);
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.sizes[3]; ++k)
        sum += at(a, {place[0], place[1], place[2], k}) * at(b, {place[0], place[1] / share, k, place[3]});
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
    // Over the last dimension, or over heads that shared one.
    const std::size_t reduced = made.sizes[3] == x.sizes[3] ? 1 : 3;
    const std::int64_t together = x.sizes[reduced] / made.sizes[reduced];
    Numbers kept = x.sizes;
    kept[reduced] /= together;
    ASSERT_EQ(made.sizes, kept);
    ASSERT_TRUE(reduced == 1 || made.sizes[3] == 1);
    for_each(made.sizes, [&](const Numbers& place, std::size_t) {
      double combined = sums ? 0 : -INFINITY;
      Numbers from = place;
      for (std::int64_t i = 0; i < together; ++i) {
        from[reduced] = place[reduced] * together + i;
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

}  // namespace meshwright::cuda
